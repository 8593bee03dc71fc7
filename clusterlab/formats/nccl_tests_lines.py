"""What nccl-tests, rccl-tests and mscclpp-test print around their table: options, devices, closing lines.

``# nThread 1 nGpus 8 minBytes …``, ``#  Rank  0 Group  0 Pid 1001 on node0 device  0 [0000:07:00] NVIDIA
H100``, ``# Out of bounds values : 0 OK``, and the command that was typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PROGRAM = re.compile(
    r"(?<![\w.-])((?:all_reduce|all_gather|reduce_scatter|alltoall|alltoallv|broadcast|reduce|sendrecv"
    r"|gather|scatter|hypercube)_perf)(?:_mpi)?\b"
)
_MSCCLPP = re.compile(
    r"\b(allgather|allreduce|alltoall|sendrecv|all_gather|reduce_scatter)_test_perf\b"
)
_OPTIONS = re.compile(
    r"nThreads?:? (?P<threads>\d{1,6}) nGpus:? (?P<gpus>\d{1,6})(?: nRanks:? \d{1,9})? minBytes:? "
    r"(?P<begin>\d{1,19}) maxBytes:? (?P<end>\d{1,19}) .*?warm ?up ?[iI]ters:? (?P<warmup>\d{1,9}|auto) "
    r"iters:? (?P<iterations>\d{1,9}|auto)(?: agg iters:? \d+)?(?: validation:? (?P<validation>\d))?"
    r"(?: graph:? (?P<graph>\d{1,6}))?"
)
_RANK = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,9})(?: Group\s+(?P<group>-?\d{1,9}))? Pid\s+(?P<pid>\d{1,10}) on\s+"
    r"(?P<host>\S{1,255}) device\s+(?P<device>\d{1,6}) \[(?P<bus>[0-9a-fA-Fx:.]{1,24})\](?P<gpu>.*)"
)
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,19})")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_TESTS_VERSION = re.compile(
    r"(?P<rccl>rccl-tests: Version (?P<hash>\S{1,64}))"
    r"|nccl-tests version (?P<tests>[\d.]{1,32})(?:.*?nccl-library=(?P<library>\d{1,9}))?"
)
_LIBRARY = re.compile(r"\b(R?NCCL) version ?:? (\d+\.\d+(?:\.\d+)*(?:[+-][\w.:+-]{1,60})?)")
_NUMBERED = re.compile(r"([\d.]+)(.*)")
_MOST = 300  # characters of a line that are looked at


@dataclass(frozen=True, slots=True)
class Program:
    """The tool's name (``all_reduce_perf``); ``said`` by its own first or last line, not by a command."""

    name: str
    said: bool


@dataclass(frozen=True, slots=True)
class Options:
    """The line a process prints first. ``warmup`` and ``iterations`` None: as many as each point took, which
    clusterlab's own tables call auto.
    """

    threads: int
    gpus_per_thread: int
    begin_bytes: int
    end_bytes: int
    warmup: int | None
    iterations: int | None
    graph: int | None


@dataclass(frozen=True, slots=True)
class TestRank:
    """A line under ``# Using devices``; ``gpu`` is None where the name is not printed."""

    rank: int
    group: int
    pid: int
    host: str
    device: int
    bus: str
    gpu: str | None


@dataclass(frozen=True, slots=True)
class Closing:
    """``wrong``: values out of bounds; ``average_GBps``: the mean busbw. Each on a line of its own."""

    wrong: int | None = None
    average_GBps: float | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """``tool``'s version, or that of ``library`` (NCCL, RCCL)."""

    tool: str | None = None
    tool_version: str | None = None
    library: str | None = None
    library_version: str | None = None


Said = Program | Options | TestRank | Closing | Version


def read_line(line: str) -> Said | None:
    """What a line of the tool says; None for all other lines and for rows and headers."""
    line = line[:_MOST]
    if "Rank" in line and (rank := _RANK.search(line)):
        return _rank(rank)
    if "nThread" in line and (options := _OPTIONS.search(line)):
        return _options(options)
    if " : " in line and (closing := _closing(line)):
        return closing
    if "ersion" in line and (version := _version(line)):
        return version
    if "_perf" in line and "[" not in line[: line.find("_perf")].rpartition(" ")[2]:
        return _program(line)
    return None


def library_version(code: int) -> str:
    """``2.29.7`` for NCCL's number 22907, ``2.8.4`` for 2804 (nccl.h NCCL_VERSION)."""
    if code < 10_000:
        return f"{code // 1000}.{code % 1000 // 100}.{code % 100}"
    return f"{code // 10_000}.{code % 10_000 // 100}.{code % 100}"


def _program(line: str) -> Program | None:
    found = _PROGRAM.search(line) or _MSCCLPP.search(line)
    if found is None:
        return None
    return Program(found.group(1), said="Collective test " in line)


def _count(text: str) -> int | None:
    return None if text == "auto" else int(text)


def _options(found: re.Match[str]) -> Options:
    return Options(
        int(found["threads"]),
        int(found["gpus"]),
        int(found["begin"]),
        int(found["end"]),
        _count(found["warmup"]),
        _count(found["iterations"]),
        int(found["graph"]) if found["graph"] else None,
    )


def _rank(found: re.Match[str]) -> TestRank:
    return TestRank(
        int(found["rank"]),
        int(found["group"] or 0),
        int(found["pid"]),
        found["host"],
        int(found["device"]),
        found["bus"],
        found["gpu"].strip()[:80] or None,
    )


def _closing(line: str) -> Closing | None:
    if bounds := _BOUNDS.search(line):
        return Closing(wrong=int(bounds.group(1)))
    average = _AVERAGE.search(line)
    return Closing(average_GBps=float(average.group(1))) if average else None


def _version(line: str) -> Version | None:
    if tests := _TESTS_VERSION.search(line):
        if tests["rccl"]:
            return Version("rccl-tests", tests["hash"])
        library = library_version(int(tests["library"])) if tests["library"] else None
        return Version(
            "nccl-tests", tests["tests"].strip("."), "NCCL" if library else None, library
        )
    found = _LIBRARY.search(line)
    if found is None:
        return None
    number, suffix = _NUMBERED.match(found.group(2)).groups()  # type: ignore[union-attr]
    built = suffix if any(c.isdecimal() for c in suffix) else ""  # some builds print +cuda. alone
    return Version(library=found.group(1), library_version=number + built)
