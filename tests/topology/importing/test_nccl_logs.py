"""System sections of NCCL logs as fabrics; measurements are refused."""

from __future__ import annotations

import csv
import re

import pytest
from hypothesis import given

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import NotAFabricError
from clusterlab.topology.importing.nccl_logs import read_nccl_logs, read_nccl_system
from clusterlab.topology.importing.nccl_xml import read_nccl_xml
from tests.formats.nccl_examples import SYSTEM_LINES, TOPOLOGY, log
from tests.support import shared_dir
from tests.topology.importing.mangled import mangled

TABLE = "\n".join(
    [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20",
        "#  size  count  type  redop  root  time  algbw  busbw #wrong",
        "   8  2  float  sum  -1  12.25  0.00  0.00  0  12.00  0.00  0.00  0",
    ]
)


def rates(fabric: Fabric) -> dict[str, tuple[str, float | None]]:
    return {link.name: (link.link_class, link.GBps) for link in fabric.links}


def test_a_system_section_is_a_host_under_its_own_name() -> None:
    imported = read_nccl_logs(log(), file="job.log")
    fabric = imported.fabric
    assert [(d.name, d.kind, d.numa, d.pci) for d in fabric.devices] == [
        ("n7/gpu0", "gpu", 0, "0000:1b:00.0"),
        ("n7/gpu1", "gpu", 1, "0000:9b:00.0"),
        ("n7/nic0", "nic", 0, "0000:18:00.0"),
        ("n7/cpu0", "cpu", 0, None),
        ("n7/cpu1", "cpu", 1, None),
        ("n7/pcie0", "pcie_switch", 0, "0000:10:00.0"),
        ("n7/nvswitch0", "nvswitch", None, None),
        ("network", "external", None, None),
    ]
    assert fabric.device("n7/nic0").interface == "mlx5_0"
    assert fabric.device("n7/nic0").guid == "0xabc"
    assert fabric.device("n7/cpu0").model == "x86_64 Intel Sapphire Rapids"
    found = rates(fabric)
    assert found["n7/gpu1->n7/cpu1"] == found["n7/cpu1->n7/gpu1"] == ("pcie", 24.0)
    assert found["n7/nvswitch0->n7/gpu0"] == ("nvlink", 370.8)
    assert found["n7/cpu1->n7/cpu0"] == ("upi", 22.0)
    assert found["n7/nic0->network"] == ("network", 50.0)
    assert found["n7/nic0->n7/pcie0"] == ("pcie", 48.0)
    assert len(found) == len(fabric.links) == 16
    assert imported.findings == ()
    assert imported.facts["paths"]["n7/gpu0"] == {"n7/gpu1": "NVL", "n7/nic0": "PIX"}
    assert imported.facts["graphs"][0]["printed"] == 2


def test_ranks_of_several_hosts_give_several_hosts() -> None:
    both = log("a1", prefix="[1,0]<stdout>:") + log("b2", prefix="3: ")
    fabric = read_nccl_logs(both, file="job.log").fabric
    assert fabric.hosts == ("a1", "b2")
    assert len(fabric.of_kind("gpu")) == 4
    assert len(fabric.of_kind("external")) == 1


def test_lines_without_a_host_are_one_host_and_say_so() -> None:
    text = re.sub(r"n7:\d+:\d+ ", "", log())
    imported = read_nccl_logs(text, file="job.log")
    assert imported.fabric.hosts == ("n0",)
    assert [f.code for f in imported.findings] == ["hosts_unnamed"]


def test_a_section_that_is_cut_off_is_used_and_told() -> None:
    text = log(ranks=1)
    cut = text[: text.index("+ SYS")].rpartition("\n")[0] + "\n"
    imported = read_nccl_logs(cut, file="job.log")
    assert len(imported.fabric.of_kind("gpu")) == 1
    assert [f.code for f in imported.findings] == ["section_cut_off"]
    whole_too = read_nccl_logs(cut + log(), file="job.log")
    assert len(whole_too.fabric.of_kind("gpu")) == 2


def test_broken_lines_of_a_section_are_told() -> None:
    text = log(ranks=1).replace("+ PCI[24.0] - GPU/0-9b000 (1)", "+ PCI[24.0] - GPU/0-9b00x")
    imported = read_nccl_logs(text, file="job.log")
    assert [f.code for f in imported.findings] == ["lines_not_read"]


def test_older_and_newer_versions_print_the_same_machine() -> None:
    new = read_nccl_logs(log(), file="job.log").fabric
    old_lines = log().replace("/0-", "/").replace("0/abc/1/50", "abc/1/50")
    old = read_nccl_logs(old_lines.replace("maxBw", "maxWidth"), file="job.log").fabric
    assert set(old.devices) == set(new.devices)
    assert rates(old) == rates(new)


def test_nccl_2_30s_board_of_a_gpu_is_the_gpu() -> None:
    lines = (
        "=== System : maxBw 370.8 totalBw 370.8 ===",
        "CPU/0-ffffffffffffff (1/1/4)",
        "+ PCI[48.0] - DEV/0-60 (10de233510de18bf)",
        "              + NVL[370.8] - NVS/0-0",
        "              + LOC[5000.0] - GPU/0-60",
        "+ PCI[5000.0] - NIC/0-0",
        "                + NET[1.2] - NET/0-0 (0/0/0/1.250000)",
        "==========================================",
    )
    text = "\n".join(f"h:1:2 [0] NCCL INFO {line}" for line in lines)
    imported = read_nccl_logs(text, file="job.log")
    assert [d.name for d in imported.fabric.devices] == [
        "h/gpu0",
        "h/nic0",
        "h/cpu0",
        "h/nvswitch0",
        "network",
    ]
    found = rates(imported.fabric)
    assert found["h/gpu0->h/cpu0"] == ("pcie", 48.0)
    assert found["h/nic0->h/cpu0"] == ("pcie", None)
    assert found["h/nic0->network"] == ("network", 1.25)
    assert found["h/gpu0->h/nvswitch0"] == ("nvlink", 370.8)
    assert imported.fabric.device("h/cpu0").numa is None
    assert [f.code for f in imported.findings] == ["numa_unknown"]


def test_hosts_fused_over_nvlink_share_the_switch() -> None:
    lines = [
        "=== System : maxBw 721.8 totalBw 721.8 ===",
        "CPU/0-0 (3/0/0)",
        "+ C2C[409.6] - GPU/0-801000",
        "+ PCI[48.0] - GPU/0-801000 (0)",
        "              + NVL[721.8] - NVS/0-0",
        "              + C2C[409.6] - CPU/0-0",
        "CPU/1-0 (3/0/0)",
        "+ PCI[48.0] - GPU/1-801000 (1)",
        "              + NVL[721.8] - NVS/0-0",
        "==========================================",
    ]
    text = "\n".join(f"h:1:2 [0] NCCL INFO {line}" for line in lines)
    fabric = read_nccl_logs(text, file="job.log").fabric
    assert fabric.hosts == ("n0", "n1")
    (switch,) = fabric.of_kind("nvswitch")
    assert switch.host is None
    assert {link.src for link in fabric.links_to(switch.name)} == {"n0/gpu0", "n1/gpu0"}
    assert rates(fabric)["n0/cpu0->n0/gpu0"][0] in {"c2c", "pcie"}


def test_a_table_is_refused_with_its_rows_though_a_section_is_there() -> None:
    text = log() + TABLE
    with pytest.raises(NotAFabricError, match="measurements: 1 rows of nccl-tests") as caught:
        read_nccl_logs(text, file="job.log")
    assert caught.value.refused == "measurements"
    assert caught.value.facts["table_rows"] == 1
    assert caught.value.facts["headers"] == 1
    assert caught.value.facts["system_sections"] == 2
    assert len(read_nccl_system(text, file="job.log").fabric.of_kind("gpu")) == 2


def test_other_logs_are_refused_with_what_is_there() -> None:
    lines = "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 2000 - Init START"
    with pytest.raises(NotAFabricError, match="an NCCL log, 1 ranks"):
        read_nccl_logs(lines, file="job.log")
    with pytest.raises(NotAFabricError, match="2 NCCL Inspector records"):
        read_nccl_logs('{"coll_perf": {}}\n{"coll_perf": {}}', file="job.log")
    with pytest.raises(NotAFabricError, match="system section"):
        read_nccl_system(lines, file="job.log")


def test_log_and_xml_of_one_machine_agree() -> None:
    xml = read_nccl_xml(TOPOLOGY, file="topo.xml").fabric
    logged = read_nccl_logs(log("n0"), file="job.log").fabric
    for kind in ("gpu", "pcie_switch", "cpu"):
        of_xml = {(d.name, d.pci, d.numa) for d in xml.of_kind(kind)}  # type: ignore[arg-type]
        assert of_xml == {(d.name, d.pci, d.numa) for d in logged.of_kind(kind)}  # type: ignore[arg-type]
    pcie = {k: v for k, v in rates(xml).items() if v[0] == "pcie" and v[1] is not None}
    assert pcie == {k: v for k, v in rates(logged).items() if v[0] == "pcie"}


def test_a_measured_log_gives_the_machine_of_its_own_dump() -> None:
    folder = shared_dir() / "measured/h200x2"
    logged = read_nccl_system(
        (folder / "all_reduce_with_tuning_log.txt").read_text(), file="log"
    ).fabric
    dumped = read_nccl_xml((folder / "topo.xml").read_text(), file="topo.xml").fabric
    assert {(d.name, d.kind, d.pci) for d in logged.devices if d.kind != "nvswitch"} == {
        (d.name, d.kind, d.pci) for d in dumped.devices if d.kind != "nvswitch"
    }
    total = {
        link.name: round((link.GBps or 0) * link.multiplicity, 1)
        for link in dumped.links
        if link.link_class == "nvlink"
    }
    assert total == {k: v[1] for k, v in rates(logged).items() if v[0] == "nvlink"}


@given(mangled("\n".join(["h:1:2 [0] NCCL INFO " + line for line in SYSTEM_LINES])))
def test_damaged_logs_are_read_or_refused(text: str) -> None:
    try:
        read_nccl_logs(text, file="job.log")
    except UsageError as error:
        assert error.where == "job.log"


def test_every_sample_is_refused_with_its_row_count() -> None:
    samples = shared_dir() / "samples"
    checked = 0
    for stated in csv.DictReader((samples / "expect.csv").read_text().splitlines()):
        if stated["kind"] != "nccl_logs":
            continue
        with pytest.raises(NotAFabricError) as caught:
            read_nccl_logs((samples / stated["path"]).read_text(errors="replace"), file="log")
        assert caught.value.refused == stated["expected"], stated["path"]
        rows = re.match(r"(\d+) table rows", stated["notes"])
        assert rows is None or caught.value.facts["table_rows"] == int(rows.group(1))
        checked += 1
    assert checked > 45
