"""What a probe's figures say of plain loads and stores: how much of the link, by how many SMs, how wide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.p2p import CopyRow, KernelRow, LinkFigure, P2pReport, Touch, Wrong

FILLED = 0.95
"""Programs fill the link when they reach this much of the best."""

_AS_GOOD = 0.98
"""Of widths that differ by no more than this the widest is named."""

_WHOLE = 0.8
_FEW_LANES = 3


@dataclass(frozen=True, slots=True)
class Reached:
    """What one kind of access came to. ``narrow`` is the narrowest width's best, ``few`` the fewest SMs'."""

    touch: Touch
    best: KernelRow
    filled_by: int
    few: KernelRow
    narrow: KernelRow


def reached(rows: Sequence[KernelRow]) -> list[Reached]:
    """One for each touch that was measured with several numbers of programs, or several widths."""
    found = []
    for touch in dict.fromkeys(row.touch for row in rows):
        mine = [row for row in rows if row.touch == touch]
        if len(mine) < 2:
            continue
        most = max(row.GBps for row in mine)
        width = max(row.access_bytes for row in mine if row.GBps >= _AS_GOOD * most)
        same_width = [row for row in mine if row.access_bytes == width]
        best = max(same_width, key=lambda row: row.GBps)
        filled_by = min(row.programs for row in same_width if row.GBps >= FILLED * best.GBps)
        least = min(row.access_bytes for row in mine)
        narrow = max(
            (row for row in mine if row.access_bytes == least), key=lambda row: row.GBps
        )  # fmt: skip
        few = min(same_width, key=lambda row: row.programs)
        found.append(Reached(touch, best, filled_by, few, narrow))
    return found


def sentences(report: P2pReport) -> list[str]:
    """One sentence for each kind of access, in the order measured."""
    return [_sentence(one, report) for one in reached(report.kernel)]


def _sentence(one: Reached, report: P2pReport) -> str:
    touch = one.touch
    if touch.access == "local":
        return (
            f"Plain loads and stores in GPU {touch.gpu}'s own memory copy {_best(one)}:"
            f" {_how(one)}; of links between GPUs this says nothing."
        )
    kind = "loads from" if touch.access == "load" else "stores to"
    src, dst = (touch.peer, touch.gpu) if touch.access == "load" else (touch.gpu, touch.peer)
    link = report.link(src, dst)
    engine = max(
        (c.GBps for c in report.copies if (c.way.src, c.way.dst, c.way.both) == (src, dst, False)),
        default=None,
    )
    return (
        f"GPU {touch.gpu}'s plain {kind} GPU {touch.peer} reach {_best(one)},"
        f" {_share(one.best.GBps, link, engine)}: {_how(one)}."
    )


def _best(one: Reached) -> str:
    return f"{one.best.GBps:.3g} GB/s at {one.best.access_bytes} bytes per access"


def _share(GBps: float, link: LinkFigure | None, engine: float | None) -> str:
    """How much of the link that is, and what it means for its lanes."""
    whole = link.GBps if link is not None and link.GBps else engine
    if whole is None:
        return "with no figure of the link to hold it against"
    against = "the link's" if link is not None and link.GBps else "the copy engine's"
    text = f"{GBps / whole:.2f} of {against} {whole:.3g} GB/s"
    lanes = link.lanes if link is not None else None
    rate = (link.wire_GBps or link.GBps) if link is not None else None
    if not lanes or lanes < 2 or not rate:
        return text
    least = min(lanes, math.ceil(GBps / (rate / lanes) - 1e-9))
    if GBps >= _WHOLE * whole:
        return f"{text}, which takes at least {least} of its {lanes} lanes, not one or a few"
    if least <= _FEW_LANES:
        return f"{text}, which {least} of its {lanes} lanes could carry: one or a few, as is often said"
    return f"{text}, which takes at least {least} of its {lanes} lanes: more than a few, not all"


def _how(one: Reached) -> str:
    parts = []
    if one.few.programs < one.best.programs:
        parts.append(
            f"{one.filled_by} SMs reach {FILLED:.0%} of it, {one.few.programs} alone"
            f" {one.few.GBps:.3g} GB/s"
        )
    if one.narrow.access_bytes < one.best.access_bytes:
        parts.append(f"{one.narrow.access_bytes} bytes per access {one.narrow.GBps:.3g} GB/s")
    return ", ".join(parts) or "one setting measured"


def wrong_data(copies: Sequence[CopyRow], kernel: Sequence[KernelRow]) -> list[Finding]:
    """A finding for all that arrived wrong by copies, and one for the kernel."""
    found = []
    by_copy = [(str(row.way), row.size_bytes, row.wrong) for row in copies if row.wrong]
    by_kernel = [(str(row.touch), row.size_bytes, row.wrong) for row in kernel if row.wrong]
    for code, rows in (("P2P_COPY_WRONG", by_copy), ("P2P_KERNEL_WRONG", by_kernel)):
        if rows:
            found.append(
                Finding(
                    code,
                    Severity.ERROR,
                    tuple(_evidence(what, size, wrong) for what, size, wrong in rows[:8]),
                    "nvidia-smi -q -d ECC,PAGE_RETIREMENT and nvidia-smi nvlink -e for these GPUs;"
                    " where the way is PCIe, switch ACS and the IOMMU off (they redirect peer writes)",
                    links=tuple(dict.fromkeys(what for what, _, _ in rows)),
                )
            )
    return found


def _evidence(what: str, size_bytes: int, wrong: Wrong) -> str:
    return (
        f"{what}: {wrong.count} of {size_bytes} bytes wrong, the first at index {wrong.index}:"
        f" expected {wrong.expected}, got {wrong.got}"
    )
