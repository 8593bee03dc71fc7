"""What is read from a log in which NCCL wrote."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.nccl_log import LogPort, bus_id_text, parse_nccl_log, recognise
from clusterlab.formats.nccl_log_lines import log_lines
from tests.formats.nccl_examples import log


def test_ranks_ports_graphs_and_connections_are_read_from_mixed_lines() -> None:
    found = parse_nccl_log(log(), file="job.log")
    assert found.versions == ("NCCL 2.26.6+cuda12.8",)
    assert [(r.rank, r.nranks, r.host, r.nvml_dev, r.bus_id) for r in found.ranks] == [
        (0, 2, "n7", 0, "0000:1b:00.0"),
        (1, 2, "n7", 1, "0000:9b:00.0"),
    ]
    assert found.ports == (LogPort("n7", "IB", 0, "mlx5_0"),)
    assert found.rings == {0: (0, 1)}
    assert {(c.src_rank, c.dst_rank, c.via) for c in found.connections} == {(0, 1, "P2P/CUMEM")}
    assert [(g.pattern, g.channels) for g in found.graphs] == [
        (4, (("GPU/0-1b000", "GPU/0-9b000"), ("GPU/0-9b000", "GPU/0-1b000")))
    ] * 2
    path = next(p for p in found.paths if p.dst[0] == "NET")
    assert (path.hops, path.GBps, path.type) == (3, 48.0, "PIX")


def test_the_system_section_is_a_tree_by_its_indentation() -> None:
    first, second = parse_nccl_log(log(), file="job.log").sections
    assert first.complete
    assert first.max_GBps == 370.8
    assert first.unread == ()
    assert [(s.src[0], s.dst[0], s.dst[2], s.kind, s.GBps) for s in first.links] == [
        ("CPU", "PCI", 0x10000, "PCI", 48.0),
        ("PCI", "GPU", 0x1B000, "PCI", 48.0),
        ("GPU", "NVS", 0, "NVL", 370.8),
        ("PCI", "NIC", 0x18000, "PCI", 48.0),
        ("NIC", "NET", 0, "NET", 50.0),
        ("CPU", "CPU", 1, "SYS", 22.0),
        ("CPU", "GPU", 0x9B000, "PCI", 24.0),
        ("GPU", "NVS", 0, "NVL", 370.8),
        ("CPU", "CPU", 0, "SYS", 22.0),
    ]
    assert second.nodes == first.nodes


@pytest.mark.parametrize(
    ("line", "writer", "message"),
    [
        ("n1:12:34 [5] NCCL INFO Using network IB", ("n1", 12, 34, 5), "Using network IB"),
        ("[1,3]<stdout>:n1:12:34 [5] NCCL INFO a", ("n1", 12, 34, 5), "a"),
        ("3: n1:12:34 [5] ncclTopoPrint, 316 NCCL INFO   b", ("n1", 12, 34, 5), "  b"),
        ("[2025-01-01 10:00:00] n1:12:34 [0] init.cc:12 NCCL WARN c", ("n1", 12, 34, 0), "c"),
        ("[1] NCCL INFO d", (None, None, None, 1), "d"),
        ("n1:12:34 [5] f(), graph/topo.cc:12 NCCL TRACE e", ("n1", 12, 34, 5), "e"),
        ("n1:12:34 NCCL CALL f()", ("n1", 12, 34, None), "f()"),
    ],
)
def test_a_line_says_who_wrote_it(line: str, writer: object, message: str) -> None:
    (found,) = log_lines(line)
    assert (found.writer, found.message) == (writer, message)


def test_lines_that_only_mention_nccl_are_not_nccls() -> None:
    assert list(log_lines("installed NCCL today\nNCCL rdma dev_num:4\nno\n")) == []


def test_bus_ids_are_written_as_the_kernel_does() -> None:
    assert bus_id_text(0x60) == "0000:00:06.0"
    assert bus_id_text(0x1B000) == "0000:1b:00.0"
    assert bus_id_text(0x901000) == "0009:01:00.0"


def test_a_text_without_nccl_is_no_log() -> None:
    with pytest.raises(UsageError, match="nothing that NCCL"):
        parse_nccl_log("hello\nworld\n", file="f")
    assert not recognise("hello\nworld\n")
    assert not recognise("\tGPU0\tGPU1\nGPU0\t X \tNV18\n")
    assert recognise(log())
    assert recognise('{"coll_perf": {"coll": "AllReduce"}}')


def test_a_long_line_takes_no_longer_than_its_length() -> None:
    text = "a" * 200_000 + "() NCCL \n" + "1 " * 100_000 + "\n" + "#" * 100_000 + " " * 100_000
    assert not recognise(text)
    assert list(log_lines(text)) == []
