"""NCCL's own init times, as every version prints them."""

from __future__ import annotations

import pytest

from clusterlab.formats.nccl_log_init import InitTimings, init_timings
from clusterlab.formats.nccl_log_lines import log_lines
from tests.support import shared_dir

# As src/init.cc of 2.22.3 and of 2.23.4 to 2.30 format them.
OF_2_22 = (
    "h:1:2 [0] NCCL INFO Init timings: rank 1 nranks 8 total 2.50 (kernels 1.00, bootstrap 0.50, "
    "allgathers 0.25, topo 0.50, graphs 0.05, connections 0.15, rest 0.05)"
)
SINCE_2_23 = (
    "h:{pid}:2 [0] NCCL INFO Init timings - {function}: rank {rank} nranks 2 total 0.59 (kernels 0.47, "
    "alloc 0.06, bootstrap 0.00, allgathers 0.00, topo 0.03, graphs 0.00, connections 0.01, rest -0.01)"
)
BOOTSTRAP = (
    "h:{pid}:2 [0] NCCL INFO Bootstrap timings total 0.001500 (create 0.000500, send 0.000250, "
    "recv 0.000500, ring 0.000250, delay 0.000000)"
)


def read(*lines: str) -> list[InitTimings]:
    return init_timings(log_lines("\n".join(lines)))


def test_the_first_version_names_no_function() -> None:
    (one,) = read(OF_2_22)
    assert (one.function, one.rank, one.nranks, one.total_s) == (None, 1, 8, 2.5)
    assert list(one.parts) == [
        "kernels", "bootstrap", "allgathers", "topo", "graphs", "connections", "rest",
    ]  # fmt: skip
    assert sum(one.parts.values()) == pytest.approx(one.total_s)


@pytest.mark.parametrize(
    "function", ["ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommInitAll", "ncclCommSplit"]
)
def test_later_versions_name_what_was_called(function: str) -> None:
    (one,) = read(SINCE_2_23.format(pid=1, rank=0, function=function))
    assert (one.function, one.total_s, one.bootstrap) == (function, 0.59, {})
    assert one.parts["alloc"] == 0.06
    assert one.parts["rest"] == -0.01  # rounding of what was summed


def test_a_bootstrap_goes_with_the_init_of_the_same_thread() -> None:
    init = [SINCE_2_23.format(pid=p, rank=p, function="ncclCommInitRank") for p in (1, 2)]
    first, second = read(BOOTSTRAP.format(pid=2), init[0], init[1])
    assert first.bootstrap == {}
    assert second.bootstrap == {
        "create": 0.0005, "send": 0.00025, "recv": 0.0005, "ring": 0.00025, "delay": 0.0,
    }  # fmt: skip


def test_a_part_that_a_later_version_adds_is_kept() -> None:
    (one,) = read(OF_2_22.replace("topo 0.50", "topo 0.40, gin 0.10"))
    assert one.parts["gin"] == 0.1


@pytest.mark.parametrize(
    "line",
    [
        "Init timings: rank 0 nranks 1 total 1.0 (kernels 1.0)",  # nobody's line
        "h:1:2 [0] NCCL INFO Init timings: rank 0 nranks 1 total",
        "h:1:2 [0] NCCL INFO Init timings - f: rank 0 nranks 2 total 0.59 (kernels 0.47, alloc",
        "h:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 - Init COMPLETE",
    ],
)
def test_what_is_no_account_or_cut_off_is_passed_over(line: str) -> None:
    assert read(line) == []


@pytest.mark.parametrize(
    ("log", "function", "nranks"),
    [
        ("samples/nccl_logs/v100_4gpu.log", "ncclCommInitAll", 1),
        ("samples/nccl_logs/moc_h100_2n8g_sendrecv.log", "ncclCommInitRank", 8),
        ("measured/h200x2/all_reduce_with_tuning_log.txt", "ncclCommInitRankConfig", 2),
    ],
)
def test_real_logs(log: str, function: str, nranks: int) -> None:
    path = shared_dir() / log
    if not path.is_file():
        pytest.skip(f"no {log} here")
    text = path.read_text(encoding="utf-8", errors="replace")
    found = init_timings(log_lines(text))
    assert len(found) == text.count("Init timings")
    assert {(one.function, one.nranks) for one in found} == {(function, nranks)}
    for one in found:
        assert sum(one.parts.values()) == pytest.approx(one.total_s, abs=0.05)  # two decimals each
