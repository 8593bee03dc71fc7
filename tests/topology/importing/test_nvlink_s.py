"""GPUs and links to unknown far ends from nvidia-smi nvlink -s."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.importing.nvlink_s import read_nvlink_s
from tests.formats.test_nvlink_s import TEXT
from tests.topology.importing.mangled import mangled


def test_active_links_lead_to_an_external_device_at_the_printed_rate() -> None:
    imported = read_nvlink_s(TEXT, file="t")
    assert [(d.name, d.kind) for d in imported.fabric.devices] == [
        ("n0/gpu0", "gpu"),
        ("n0/gpu0-nvlink", "external"),
        ("n0/gpu1", "gpu"),
        ("n0/gpu1-nvlink", "external"),
        ("n0/gpu2", "gpu"),
    ]
    out = imported.fabric.links_from("n0/gpu1")
    assert [(k.multiplicity, k.wire_GBps, k.GBps) for k in out] == [(2, 26.562, None)]
    assert imported.fabric.device("n0/gpu0").guid == "GPU-aa"


def test_inactive_missing_and_elided_links_are_findings() -> None:
    imported = read_nvlink_s(TEXT, file="t")
    said = {(f.code, f.evidence[0]) for f in imported.findings}
    assert said == {
        ("nvlink_inactive", "n0/gpu0: links 1 inactive"),
        ("links_missing", "n0/gpu0: 2 of the 6 links of a Tesla V100-SXM2-32GB listed"),
        (
            "links_elided",
            "n0/gpu1: lines cut out; 2 links shown, at least 18 by the highest number",
        ),
        ("nvlink_inactive", "n0/gpu2: all links inactive"),
    }
    assert imported.facts["nvlinks"]["GPU1"]["at_least"] == 18


def test_a_gpu_with_fewer_links_than_its_siblings_is_named() -> None:
    lines = ["GPU {}: NVIDIA H200 (UUID: u{})", *(f"  Link {i}: 26.562 GB/s" for i in range(18))]
    text = "\n".join([lines[0].format(0, 0), *lines[1:], lines[0].format(1, 1), *lines[1:18]])
    text += "\n  Link 17: <inactive>\n"
    found = {f.code: f.evidence for f in read_nvlink_s(text, file="t").findings}
    assert found["nvlink_counts_uneven"] == ("n0/gpu1: 17 of 18",)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_mangled_list_is_imported_or_refused(data: st.DataObject) -> None:
    try:
        read_nvlink_s(data.draw(mangled(TEXT)), file="t")
    except UsageError as error:
        assert str(error).startswith("t")
