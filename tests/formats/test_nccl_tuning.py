"""NCCL's tuning table and choices, in the ways its versions print them."""

from __future__ import annotations

import pytest

from clusterlab.formats.nccl_tuning import TuningChoice, TuningEntry, TuningReader, read_choice
from tests.support import shared_dir


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        ("AllReduce: 8 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={2..5}",
         TuningChoice("all_reduce", 8, "ring", "ll128", 4, None)),
        ("AllReduce: 8 Bytes -> Algo 5 proto 2 time 9.500000",
         TuningChoice("all_reduce", 8, "nvls_tree", "simple", None, 9.5)),
        ("1048576 Bytes -> Algo 1 proto 0 time 9.4",
         TuningChoice(None, 1048576, "ring", "ll", None, 9.4)),
        ("AllGather [Copy Engine]: 64 Bytes -> cudaMemcpyBatchAsync",
         TuningChoice("all_gather", 64, "copy_engine", None, None, None)),
        ("AllReduce [Symmetric]: 64 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1",
         TuningChoice("all_reduce", 64, "symmetric", None, 8, None)),
        ("AllReduce: 8 Bytes -> Algo SPIRAL proto LL", None),
        ("AllReduce: 8 Bytes -> Algo 11 proto 0 time 1", None),
        ("copied 8 Bytes -> disk", None),
    ],
)  # fmt: skip
def test_choices_of_all_versions(message: str, choice: TuningChoice | None) -> None:
    assert read_choice(message) == choice


def test_the_table_of_newer_versions_stands_in_blocks() -> None:
    reader = TuningReader()
    for message in (
        "  Algorithm   |          Tree           |          Ring           |",
        "  Protocol    |  LL | LL128 | Simple |  LL | LL128 | Simple |",
        " Max NThreads |  512 |  640 |  512 |  512 |  640 |  256 |",
        "    AllReduce |  8.0/ 61.1 | 16.5/180.6 | 16.4/232.2 |  7.8/141.0 | 17.8/331.2 | 15.2/360.0 |",
        "  Algorithm   |           PAT           |",
        "  Protocol    |  LL | LL128 | Simple |  LL | LL128 | Simple |",
        "    AllGather |  0.0/   0.0 |  0.0/   0.0 |  17.6/   3.6 |",
    ):
        reader.feed(message)
    assert reader.entries[4] == TuningEntry("all_reduce", "ring", "ll128", 17.8, 331.2, 1)


def test_the_table_of_older_versions_is_one_block() -> None:
    reader = TuningReader()
    reader.feed("Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Ring/Simple |")
    reader.feed("    AllReduce |     8.0/  61.1 |    16.5/ 180.6 |    15.2/ 360.0 |")
    assert reader.entries[2] == TuningEntry("all_reduce", "ring", "simple", 15.2, 360.0, 1)


def test_a_real_log_is_read_whole() -> None:
    reader = TuningReader()
    path = shared_dir() / "samples/nccl_logs/socket_2r_tuning_info.txt"
    for line in path.read_text().splitlines():
        reader.feed(line.partition("NCCL INFO ")[2])
    # 5 functions × 7 algorithms × 3 protocols; 72 calls of 18 sizes.
    assert (reader.tables, len(reader.entries), sum(reader.choices.values())) == (1, 105, 72)
    pat = [entry for entry in reader.entries if entry.algorithm == "pat" and entry.algbw_GBps]
    assert {(entry.collective, entry.latency_us) for entry in pat} == {
        ("all_gather", 17.6),
        ("reduce_scatter", 17.6),
    }
