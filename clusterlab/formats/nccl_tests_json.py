"""The file nccl-tests writes with -J (since 2.17): one object with config, devices and results.

Read in NVIDIA/nccl-tests src/util.cu: ``root`` is a padded text, true and false are texts, NaN is the text
``nan``, a half that was not run is null, and a run that dies leaves the object open.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.formats import json_values
from clusterlab.formats.nccl_tests import Layout, NcclTestsRow, Timing
from clusterlab.formats.nccl_tests_lines import Options, TestRank, library_version

_LAYOUT = Layout(True, True, True, True, (0, 4), in_place_first=False)
_RESULTS = '"results":'


@dataclass(frozen=True, slots=True)
class NcclTestsFile:
    """``complete``: the run wrote its last line. ``dropped``: the results, counted from 1, without one whole
    half. ``wrong``: values out of bounds. ``environment`` keeps NCCL_ALGO and NCCL_PROTO only.
    """

    program: str | None
    library_version: str | None
    options: Options | None
    ranks: tuple[TestRank, ...]
    rows: tuple[NcclTestsRow, ...]
    dropped: tuple[int, ...]
    wrong: int
    complete: bool
    environment: dict[str, str]


def recognise(text: str) -> bool:
    """Whether ``text`` begins as such a file does."""
    head = text.lstrip("\ufeff \t\r\n")[:4096]
    return head.startswith("{") and '"version"' in head[:40] and '"args"' in head


def parse_nccl_tests_json(text: str, *, file: str) -> NcclTestsFile:
    """Read ``text``, as far as it is there. Raises UsageError where not even its beginning is."""
    data, complete = _object(text, file)
    config = _mapping(data.get("config"))
    results = data.get("results")
    results = results if isinstance(results, list) else []
    rows = [_row(_mapping(one), at) for at, one in enumerate(results, 1)]
    whole = tuple(row for row in rows if row is not None)
    args = data.get("args")
    program = args[0] if isinstance(args, list) and args and isinstance(args[0], str) else None
    version = json_values.whole(data.get("nccl_version"))
    return NcclTestsFile(
        program.rpartition("/")[2][:80] if program else None,
        library_version(version) if version else None,
        _options(config),
        tuple(rank for one in _list(config.get("devices")) if (rank := _rank(_mapping(one)))),
        whole,
        tuple(at for at, row in enumerate(rows, 1) if row is None),
        json_values.whole(_mapping(data.get("out_of_bounds")).get("count")) or 0,
        complete and "end_time" in data,
        _environment(_list(data.get("env"))),
    )


def _object(text: str, file: str) -> tuple[dict[str, Any], bool]:
    """The object, closed behind its last whole result where the file ends too early."""
    text = text.lstrip("\ufeff \t\r\n")
    try:
        data, complete = json.loads(text), True
    except (ValueError, RecursionError) as error:
        data, complete = _opened(text), False
        if data is None:
            line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
            raise UsageError(
                "not a whole JSON object, and no results in it",
                where=f"{file}:{line}",
                expected="what nccl-tests writes with -J",
            ) from None
    if not isinstance(data, dict):
        raise UsageError("not a JSON object", where=file, expected="what nccl-tests writes with -J")
    return data, complete


def _opened(text: str) -> Any:
    at = text.find(_RESULTS)
    if at < 0:
        return None
    start = text.find("[", at) + 1
    decoder, end = json.JSONDecoder(), start
    while start:
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        start = end + 1 if text[end : end + 1] == "," else 0
    try:
        return json.loads(text[: end or 0] + "]}")
    except (ValueError, RecursionError):
        return None


def _row(result: dict[str, Any], line: int) -> NcclTestsRow | None:
    size, count = json_values.whole(result.get("size")), json_values.whole(result.get("count"))
    out, in_place = _timing(result.get("out_of_place")), _timing(result.get("in_place"))
    if size is None or count is None or (out is None and in_place is None):
        return None
    root = str(result.get("root", "")).strip()
    return NcclTestsRow(
        size,
        count,
        _text(result.get("type")),
        _text(result.get("redop")) or None,
        int(root) if root.lstrip("-").isdecimal() and len(root) < 10 else None,
        out,
        in_place,
        line,
        _LAYOUT,
    )


def _timing(half: Any) -> Timing | None:
    half = _mapping(half)
    figures = [json_values.figure(half.get(key)) for key in ("time", "alg_bw", "bus_bw")]
    if figures[0] is None:
        figures[0] = json_values.figure(half.get("cpu_time"))
    time_us, algbw, busbw = figures
    if time_us is None or algbw is None or busbw is None:
        return None
    wrong = json_values.number(half.get("nwrong"))
    return Timing(time_us, algbw, busbw, "N/A" if wrong is None else str(int(wrong)))


def _options(config: dict[str, Any]) -> Options | None:
    figures = [json_values.whole(config.get(key)) for key in _OPTIONS]
    if any(figure is None for figure in figures):
        return None
    threads, gpus, begin, end = (figure or 0 for figure in figures)
    warmup, iterations, graph = (
        json_values.whole(config.get(key)) for key in ("warmup_iters", "iterations", "graph")
    )
    return Options(threads, gpus, begin, end, warmup, iterations, graph)


_OPTIONS = ("nthreads", "ngpus", "minimum_bytes", "maximum_bytes")


def _rank(device: dict[str, Any]) -> TestRank | None:
    rank, host = json_values.whole(device.get("rank")), _text(device.get("hostname"))
    if rank is None or not host:
        return None
    return TestRank(
        rank,
        json_values.whole(device.get("group")) or 0,
        json_values.whole(device.get("pid")) or 0,
        host,
        json_values.whole(device.get("device")) or 0,
        _text(device.get("device_hex")) or "",
        _text(device.get("device_info")),
    )


def _environment(entries: list[Any]) -> dict[str, str]:
    pairs = [str(entry).partition("=") for entry in entries]
    return {key: value for key, _, value in pairs if key in {"NCCL_ALGO", "NCCL_PROTO"}}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value[:200_000] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value.strip()[:255] or None if isinstance(value, str) else None
