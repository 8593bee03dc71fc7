"""GPUs and their peer access from nvidia-smi topo -p2p."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Severity
from clusterlab.topology.importing.topo_p2p import read_topo_p2p
from tests.formats.test_topo_p2p import TEXT
from tests.topology.importing.mangled import mangled


def test_gpus_without_links_and_what_to_do_about_refused_pairs() -> None:
    imported = read_topo_p2p(TEXT, file="t")
    assert [d.name for d in imported.fabric.devices] == ["n0/gpu0", "n0/gpu1", "n0/gpu2"]
    assert imported.fabric.links == ()
    found = {f.code: f for f in imported.findings}
    assert set(found) == {"p2p_cns", "p2p_ns", "matrix_partial"}
    assert found["p2p_cns"].evidence[1] == "GPU0->GPU2, GPU2->GPU0"
    assert "ACS" in found["p2p_cns"].fix
    assert imported.facts["p2p"][0]["status"]["GPU0"]["GPU1"] == "OK"


def test_missing_nvlink_or_atomics_is_no_warning() -> None:
    text = "nvidia-smi topo -p2p n\n GPU0 GPU1\nGPU0 X NS\nGPU1 NS X\n"
    (finding,) = read_topo_p2p(text, file="t").findings
    assert (finding.code, finding.severity) == ("p2p_ns", Severity.INFO)


def test_a_matrix_of_other_gpus_is_left_out_and_said() -> None:
    text = "GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n\nGPU0 GPU1 GPU2\nGPU0 X OK OK\n"
    imported = read_topo_p2p(text, file="t")
    assert len(imported.fabric.devices) == 2
    assert [f.code for f in imported.findings] == ["more_matrices_ignored"]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_mangled_matrix_is_imported_or_refused(data: st.DataObject) -> None:
    try:
        read_topo_p2p(data.draw(mangled(TEXT)), file="t")
    except UsageError as error:
        assert str(error).startswith("t")
