"""NCCL's graph XML as plain data."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.nccl_graph import GraphHop, parse_nccl_graph, recognise
from tests.support import shared_dir

GRAPHS = """<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="30" speedinter="24.5" latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="1">
    <channel>
      <net dev="0"/>
      <gpu dev="0xa" rank="3"/>
      <gpu dev="10"/>
      <net dev="0x1"/>
    </channel>
  </graph>
  <graph id="3" pattern="5" crossnic="0" nchannels="0" speedintra="0" speedinter="0" typeintra="LOC" typeinter="LOC" samechannels="0"/>
</graphs>
"""  # noqa: E501


def test_channels_keep_their_order_and_devices_are_hexadecimal() -> None:
    ring, nvls = parse_nccl_graph(GRAPHS, file="g.xml")
    assert (ring.pattern_name, ring.speed_intra_GBps, ring.speed_inter_GBps) == ("ring", 30, 24.5)
    assert (ring.type_intra, ring.type_inter, ring.same_channels) == ("NVL", "PIX", True)
    assert ring.channels == (
        (
            GraphHop("net", 0, None),
            GraphHop("gpu", 10, 3),
            GraphHop("gpu", 16, None),
            GraphHop("net", 1, None),
        ),
    )
    assert (nvls.pattern_name, nvls.latency_inter_us, nvls.channels) == ("nvls", None, ())


@pytest.mark.parametrize(
    ("changed", "to", "said"),
    [
        ('pattern="4"', 'pattern="x"', "g.xml:2: <graph> pattern 'x'"),
        ('speedintra="30"', 'speedintra="-1"', "g.xml:2: <graph> speedintra"),
        ('dev="0xa"', 'dev="gpu"', "g.xml:5: <gpu> dev 'gpu'"),
        ("<graphs", "<graph2", "not well-formed"),
    ],
)
def test_wrong_values_are_refused_with_their_line(changed: str, to: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_nccl_graph(GRAPHS.replace(changed, to, 1), file="g.xml")
    assert said in str(caught.value)


def test_only_graph_files_are_recognised() -> None:
    assert recognise(GRAPHS)
    assert not recognise('<system version="1"/>')


def test_a_measured_dump_says_what_nccl_chose() -> None:
    text = (shared_dir() / "measured/h200x2/graph.xml").read_text()
    graphs = {g.pattern_name: g for g in parse_nccl_graph(text, file="graph.xml")}
    assert len(graphs["ring"].channels) == graphs["ring"].channels_declared == 12
    assert graphs["ring"].speed_intra_GBps == 30
    assert graphs["balanced tree"].speed_intra_GBps == 60
