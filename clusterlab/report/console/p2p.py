"""A probe of the ways between GPUs as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusterlab.core.p2p import CopyRow, KernelRow, P2pReport
from clusterlab.core.sizes import human_size
from clusterlab.report.numbers import NOT_KNOWN, ratio, three_digits
from clusterlab.report.text import plain

_TITLES = {
    "local": "Copies within a GPU (read and written once)",
    "host": "Copies from and to pinned host memory",
    "peer": "Copies between GPUs (copy engines)",
}


def report_text(report: P2pReport) -> str:
    """All tables, then what follows from them."""
    parts = [_gpus(report), _access(report), *_copies(report), *_kernel(report), _nccl(report)]
    parts += ["\n".join(report.said)] if report.said else []
    parts += ["\n".join(f"note: {plain(note)}" for note in report.notes)] if report.notes else []
    for finding in report.findings:
        lines = [f"{finding.severity}: {finding.code}", *finding.evidence, f"fix: {finding.fix}"]
        parts.append("\n  ".join(plain(line) for line in lines))
    return "\n\n".join(part for part in parts if part)


def _gpus(report: P2pReport) -> str:
    lines = [
        f"GPU {g.index}  {plain(g.name)}  {g.sms} SMs  {g.memory_bytes / 2**30:.0f} GiB  {plain(g.uuid)}"
        for g in report.gpus
    ]
    about = [f"{name} {version}" for name, version in report.versions]
    return "\n".join([*lines, ", ".join([*about, f"link figures: {plain(report.fabric)}"])])


def _access(report: P2pReport) -> str:
    if not report.access:
        return ""
    names = list(dict.fromkeys(name for a in report.access for name, _ in a.nvml))
    rows = [["peer access", "CUDA", *(f"NVML {name}" for name in names)]]
    for a in report.access:
        said = dict(a.nvml)
        rows.append(
            [f"GPU {a.src} → GPU {a.dst}", "yes" if a.cuda else "no",
             *(said.get(name, NOT_KNOWN) for name in names)]
        )  # fmt: skip
    return _table(rows, left=1)


def _copies(report: P2pReport) -> Iterable[str]:
    for kind, title in _TITLES.items():
        rows = [row for row in report.copies if row.way.kind == kind]
        if rows:
            header = ["way", "size", "time us", "GB/s", "slowest", "fastest", "link", "ratio", ""]
            body = [header, *(_copy(row, report) for row in rows)]
            yield f"{title}\n{_table(body, left=1)}"


def _copy(row: CopyRow, report: P2pReport) -> list[str]:
    predicted = report.predicted_GBps(row.way)
    slowest, fastest = row.range_GBps
    share = None if predicted is None else row.GBps / predicted
    return [
        str(row.way), human_size(row.size_bytes), three_digits(row.times.median_us),
        three_digits(row.GBps), three_digits(slowest), three_digits(fastest),
        three_digits(predicted), ratio(share), _mark(row),
    ]  # fmt: skip


def _kernel(report: P2pReport) -> Iterable[str]:
    """For each touch a row per number of programs, a column per width."""
    for touch in dict.fromkeys(row.touch for row in report.kernel):
        mine = [row for row in report.kernel if row.touch == touch]
        widths = sorted({row.access_bytes for row in mine})
        cells = {(row.programs, row.access_bytes): row for row in mine}
        rows = [["SMs", *(f"{width} B" for width in widths)]]
        for programs in sorted({row.programs for row in mine}):
            found = [cells.get((programs, width)) for width in widths]
            rows.append([str(programs), *(_cell(row) for row in found)])
        size = human_size(mine[0].size_bytes)
        yield f"Kernel, {touch}, {size}: GB/s by SMs and bytes per access\n{_table(rows, left=0)}"


def _cell(row: KernelRow | None) -> str:
    return NOT_KNOWN if row is None else f"{three_digits(row.GBps)}{_mark(row)}"


def _mark(row: CopyRow | KernelRow) -> str:
    """``WRONG`` for wrong data, ``h`` where the host's cost is in the figure."""
    if row.wrong is not None:
        return " WRONG"
    return "" if row.times.ahead else " h"


def _nccl(report: P2pReport) -> str:
    if report.nccl is None:
        return ""
    rows = [["NCCL's path", "by", "for", "channels"]]
    rows += [
        [f"GPU {p.src} → GPU {p.dst}", p.transport, p.use, str(p.channels)]
        for p in report.nccl.paths
    ]
    nvls = report.nccl.nvls_channels
    last = "NVLS (NVLink SHARP): " + (
        NOT_KNOWN if nvls is None else f"{nvls} channels" if nvls else "none"
    )
    return f"{plain(report.nccl.version or 'NCCL')}\n{_table(rows, left=3)}\n{last}"


def _table(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Columns two spaces apart; the first ``left`` to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
