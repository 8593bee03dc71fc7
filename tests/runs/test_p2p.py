"""The probe from plan to report on machines that are made up; what it says follows from their figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from clusterlab.bench.p2p.plan import CopyStep
from clusterlab.core.errors import UsageError
from clusterlab.core.p2p import HOST, P2pReport, Way, Wrong
from clusterlab.report.console.p2p import report_text
from clusterlab.runs.probing.p2p import P2pOptions, measure, paths_of, plan_of
from clusterlab.runs.probing.p2p_links import links_of
from tests.bench.p2p.fakes import FakeMachine, access, gpus

OPTIONS = P2pOptions(sizes_bytes=(1 << 20, 1 << 28), fabric="h200-2", nccl=False)


def probe(
    machine: FakeMachine | None = None, count: int = 2, *, cuda: bool = True, **options: Any
) -> P2pReport:
    asked = replace(OPTIONS, **({"fabric": "h200-1"} if count == 1 else {}), **options)
    plan = plan_of(gpus(count), access(count, cuda=cuda), asked)
    return measure(plan, asked, lambda _plan, _options: machine or FakeMachine())


@pytest.fixture(autouse=True)
def with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan holds the kernel also where Triton is not installed: the machine is made up."""
    monkeypatch.setattr(
        "clusterlab.runs.probing.p2p.importlib.util.find_spec", lambda _name: object()
    )


def test_the_links_of_a_design_stand_beside_the_measurements() -> None:
    report = probe()
    link = report.link(0, 1)
    assert link is not None
    assert (link.type, link.lanes) == ("NVL", 18)
    assert link.GBps == pytest.approx(18 * 20.6)
    assert report.predicted_GBps(Way(0, 1, both=True)) == pytest.approx(2 * 18 * 20.6)
    assert report.predicted_GBps(Way(0, 0)) is None
    to_host = report.link(0, HOST)
    assert to_host is not None
    assert to_host.GBps == pytest.approx(48.0)
    row = next(r for r in report.copies if r.way == Way(0, 1) and r.size_bytes == 1 << 28)
    assert row.times.median_us == pytest.approx(2 + (1 << 28) / 380e3)
    assert row.range_GBps == pytest.approx((row.GBps / 2, row.GBps * 2))


def test_both_ways_at_once_count_the_bytes_of_both() -> None:
    rows = {(r.way, r.size_bytes): r for r in probe().copies}
    one, both = rows[Way(0, 1), 1 << 28], rows[Way(0, 1, both=True), 1 << 28]
    assert both.GBps == pytest.approx(2 * one.GBps)


@pytest.mark.parametrize(
    ("sm_GBps", "link_GBps", "said"),
    [
        # a lane signals 25 GB/s: 371 need 14.8 of them
        (12.0, 371.0, ("at least 15 of its 18 lanes, not one or a few", "32 SMs reach 95%")),
        (12.0, 40.0, ("which 2 of its 18 lanes could carry: one or a few", "4 SMs reach")),
        (12.0, 200.0, ("at least 8 of its 18 lanes: more than a few, not all", "16 SMs reach")),
    ],
)
def test_the_sentence_on_lanes_follows_from_the_figures(
    sm_GBps: float, link_GBps: float, said: tuple[str, ...]
) -> None:
    loads, stores = probe(FakeMachine(link_GBps, sm_GBps)).said
    assert loads.startswith(f"GPU 0's plain loads from GPU 1 reach {link_GBps:.3g} GB/s")
    assert stores.startswith("GPU 0's plain stores to GPU 1 reach")
    for text in said:
        assert text in loads
        assert text in stores
    assert "at 16 bytes per access" in loads
    assert "1 alone 12 GB/s" in loads


def test_without_figures_of_the_link_the_copy_engine_is_the_measure(monkeypatch: Any) -> None:
    asked = replace(OPTIONS, fabric=None)
    plan = plan_of(gpus(2), access(2), asked)
    report = measure(plan, asked, lambda _plan, _options: FakeMachine())
    assert report.links == ()
    assert any("no link figures" in note for note in report.notes)
    assert "of the copy engine's 379 GB/s" in report.said[0]
    assert "lanes" not in report.said[0]


@pytest.mark.parametrize(("count", "cuda"), [(1, True), (2, False)])
def test_where_no_pair_may_the_kernel_runs_at_home_and_says_so(count: int, cuda: bool) -> None:
    report = probe(count=count, cuda=cuda)
    assert {row.touch.access for row in report.kernel} == {"local"}
    assert "of links between GPUs this says nothing" in report.said[0]
    assert any("own" in note for note in report.notes)
    assert {row.way.kind for row in report.copies} == (
        {"local", "host"} if count == 1 else {"local", "host", "peer"}
    )


def test_wrong_data_is_a_finding_with_its_way_and_its_first_byte() -> None:
    step = CopyStep(Way(1, 0), 1 << 20)
    report = probe(FakeMachine(wrong={step: Wrong(7, 42, 100, 255)}))
    (finding,) = report.findings
    assert (finding.code, finding.severity, finding.links) == (
        "P2P_COPY_WRONG", "error", ("GPU 1 → GPU 0",),
    )  # fmt: skip
    assert "index 42: expected 100, got 255" in finding.evidence[0]
    marked = [line for line in report_text(report).splitlines() if line.endswith("   WRONG")]
    assert len(marked) == 1
    assert marked[0].startswith("GPU 1 → GPU 0")
    assert probe().findings == ()


def test_figures_with_the_hosts_cost_in_them_and_other_widths_are_marked() -> None:
    report = probe(FakeMachine(behind=frozenset({1 << 20}), compiled={8: 16}))
    lines = report_text(report).splitlines()
    assert all(
        line.endswith(" h") == ("1 MiB" in line) for line in lines if "→" in line and "iB" in line
    )
    assert any("accesses of 8 bytes were compiled to 16" in line for line in lines)
    assert any("queued operations more slowly" in line for line in lines)
    assert not any(line.endswith(" h") for line in report_text(probe()).splitlines())


def test_without_triton_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterlab.runs.probing.p2p.importlib.util.find_spec", lambda _name: None)
    report = probe()
    assert report.kernel == ()
    assert report.copies
    assert any("clusterlab[triton]" in note for note in report.notes)


def test_json_has_every_row_with_its_rates_and_survives_the_trip() -> None:
    report = probe()
    data = json.loads(json.dumps(report.to_json()))
    assert len(data["copies"]) == len(report.copies)
    for row, copy in zip(data["copies"], report.copies, strict=True):
        assert row["GBps"] == pytest.approx(copy.GBps)
        assert (row["ratio"] is None) == (copy.way.kind == "local")
    assert data["access"][0]["nvml"] == {"read": "OK", "nvlink": "NS"}
    assert {row["access_bytes"] for row in data["kernel"]} == {4, 8, 16}


def test_the_text_has_a_column_for_each_width_and_a_row_for_each_number_of_sms() -> None:
    text = report_text(probe())
    table = text.split("Kernel, GPU 0 loads from GPU 1")[1].split("\n\n")[0].splitlines()
    assert table[1].split() == ["SMs", "4", "B", "8", "B", "16", "B"]
    assert [line.split()[0] for line in table[2:]] == ["1", "2", "4", "8", "16", "32", "64", "132"]
    assert table[2].split() == ["1", "3.00", "6.00", "12.0"]


def test_a_fabric_with_too_few_gpus_is_refused() -> None:
    with pytest.raises(UsageError, match=r"fabric h200-2: 3 visible GPUs"):
        links_of(gpus(3), "h200-2")


LOG = """\
n7:10:11 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
n7:10:11 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x1 - Init START
"""


def test_nccls_paths_are_those_of_its_log() -> None:
    text = LOG + "".join(
        f"n7:10:11 [0] NCCL INFO Channel {c:02d}/{i} : 0[0] -> 1[1] via P2P/CUMEM\n"
        for c, i in ((0, 0), (1, 0), (0, 1))
    )
    text += "n7:10:11 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n"
    text += "n7:10:11 [0] NCCL INFO 24 coll channels, 16 nvls channels, 32 p2p channels\n"
    found, notes = paths_of(text)
    assert notes == []
    assert found is not None
    assert (found.version, found.nvls_channels) == ("NCCL 2.28.9+cuda13.0", 16)
    assert [(p.src, p.dst, p.transport, p.use, p.channels) for p in found.paths] == [
        (0, 1, "P2P/CUMEM", "collectives", 2),
        (0, 1, "P2P/CUMEM", "send_recv", 1),
        (1, 0, "SHM", "channels", 1),
    ]
    text = report_text(replace(probe(), nccl=found))
    assert "GPU 1 → GPU 0  SHM" in text
    assert "NVLS (NVLink SHARP): 16 channels" in text


@pytest.mark.parametrize("text", ["", "nothing of NCCL's\n"])
def test_a_log_that_is_not_there_is_a_note(text: str) -> None:
    found, notes = paths_of(text)
    assert found is None
    assert notes[0].startswith("NCCL left no log")


def test_a_log_without_connections_is_a_note() -> None:
    found, notes = paths_of(LOG)
    assert found is not None
    assert found.paths == ()
    assert notes == ["NCCL's log names no connection"]
