"""A log in which NCCL or nccl-tests wrote: what stands in it, part by part.

NCCL_DEBUG=INFO lines (version, ranks, networks, the system section, paths, graphs, connections),
nccl-tests tables, NCCL Inspector records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.formats import nccl_tests
from clusterlab.formats.nccl_log_graph import (
    LogConnection,
    LogGraph,
    LogPath,
    log_connections,
    log_graphs,
    log_paths,
    log_rings,
)
from clusterlab.formats.nccl_log_lines import LogLine, log_lines
from clusterlab.formats.nccl_log_system import SystemSection, system_sections
from clusterlab.formats.nccl_tests import NcclTestsOutput, parse_nccl_tests

MAX_CHARACTERS = 512 * 2**20

_VERSION = re.compile(r"\b(R?NCCL) version (\d+\.\d+(?:\.\d+)*(?:\+\w+(?:\.\w+)*)?)")
_RANK = re.compile(
    r"\brank (\d{1,9}) nranks (\d{1,9})(?: cudaDev (\d{1,6}))?(?: nvmlDev (\d{1,6}))?"
    r" busId ([0-9a-fA-F]{1,16})"
)
_NETWORK = re.compile(r"NET/(\w+) ?: (?:Using|Selected provider is)\b(.*)")
_PORT = re.compile(r"\[(\d{1,4})\]([\w.-]{1,64})")
_INSPECTOR = re.compile(r'"(?:inspector_output_format_version|coll_perf)"\s*:')
_MARK = re.compile(r"NCCL (?:INFO|WARN|TRACE|CALL|ABORT) |\bR?NCCL version \d")


@dataclass(frozen=True, slots=True)
class LogRank:
    """A rank as its init line has it. ``host`` and ``nvml_dev`` are None where the line does not say."""

    rank: int
    nranks: int
    host: str | None
    pid: int | None
    cuda_dev: int | None
    nvml_dev: int | None
    bus_id: str


@dataclass(frozen=True, slots=True)
class LogPort:
    """A device of a network plugin: ``NET/IB : Using [0]mlx5_0:1/RoCE``."""

    host: str | None
    network: str
    dev: int
    name: str


@dataclass(frozen=True, slots=True)
class NcclLog:
    """Everything found. ``lines`` are NCCL's own; ``inspector_records`` counts NCCL Inspector's."""

    lines: tuple[LogLine, ...]
    versions: tuple[str, ...]
    ranks: tuple[LogRank, ...]
    ports: tuple[LogPort, ...]
    sections: tuple[SystemSection, ...]
    paths: tuple[LogPath, ...]
    graphs: tuple[LogGraph, ...]
    rings: dict[int, tuple[int, ...]]
    connections: tuple[LogConnection, ...]
    tests: NcclTestsOutput
    inspector_records: int


def recognise(text: str) -> bool:
    """Whether NCCL, nccl-tests or NCCL Inspector wrote in ``text``."""
    return bool(_MARK.search(text) or _INSPECTOR.search(text)) or nccl_tests.recognise(text)


def parse_nccl_log(text: str, *, file: str) -> NcclLog:
    """Read ``text``; lines of other programs are passed over. Raises UsageError when nothing is NCCL's."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"{len(text)} characters", where=file, expected=f"at most {MAX_CHARACTERS} of a log"
        )
    lines = tuple(log_lines(text))
    tests = parse_nccl_tests(text)
    records = len(_INSPECTOR.findall(text.replace('"inspector_output_format_version"', "")))
    versions = tuple(dict.fromkeys(f"{n} {v}" for n, v in _VERSION.findall(text)))
    if not (lines or tests.banner or records or versions or _INSPECTOR.search(text)):
        raise UsageError(
            "nothing that NCCL or nccl-tests prints",
            where=file,
            expected="a log written with NCCL_DEBUG=INFO, or nccl-tests' output",
        )
    return NcclLog(
        lines,
        versions,
        tuple(_ranks(lines)),
        tuple(_ports(lines)),
        tuple(system_sections(lines)),
        tuple(log_paths(lines)),
        tuple(log_graphs(lines)),
        log_rings(lines),
        tuple(log_connections(lines)),
        tests,
        records,
    )


def bus_id_text(number: int) -> str:
    """``0000:1b:00.0`` for NCCL's 0x1b000 (src/misc/utils.cc int64ToBusId)."""
    domain, bus, device, function = number >> 20, number >> 12 & 255, number >> 4 & 255, number & 15
    return f"{domain & 0xFFFFFFFF:04x}:{bus:02x}:{device:02x}.{function:x}"


def _ranks(lines: Iterable[LogLine]) -> list[LogRank]:
    """One for each rank, host and GPU, though a communicator's lines name it several times."""
    found: dict[object, LogRank] = {}
    for line in lines:
        match = _RANK.search(line.message)
        if match is None or "comm" not in line.message:
            continue
        rank, nranks, cuda_dev, nvml_dev, bus_id = match.groups()
        one = LogRank(
            int(rank),
            int(nranks),
            line.host,
            line.pid,
            int(cuda_dev) if cuda_dev else None,
            int(nvml_dev) if nvml_dev else None,
            bus_id_text(int(bus_id, 16)),
        )
        key = (one.host, one.pid, one.rank, one.nranks, one.bus_id)
        if key not in found or found[key].nvml_dev is None:
            found[key] = one
    return list(found.values())


def _ports(lines: Iterable[LogLine]) -> list[LogPort]:
    found: dict[LogPort, None] = {}
    for line in lines:
        match = _NETWORK.match(line.message)
        if match is not None:
            before_oob = match.group(2).partition("; OOB")[0]
            for dev, name in _PORT.findall(before_oob):
                found[LogPort(line.host, match.group(1), int(dev), name)] = None
    return list(found)
