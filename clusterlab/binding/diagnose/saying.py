"""How rules speak: findings with the taxonomy's severity, ranks and hardware in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.codes import CODES
from clusterlab.binding.diagnose.scene import Device
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity

MOST_EVIDENCE = 12


def finding(
    code: str,
    ranks: Iterable[RankRecord],
    evidence: Sequence[str],
    fix: str,
    *,
    severity: Severity | None = None,
) -> Finding:
    """A finding of the taxonomy's severity unless ``severity`` says what it did here."""
    shown = list(dict.fromkeys(evidence))
    if len(shown) > MOST_EVIDENCE:
        shown = [*shown[:MOST_EVIDENCE], f"and {len(shown) - MOST_EVIDENCE} more like these"]
    return Finding(
        code,
        severity or CODES[code].severity,
        tuple(shown),
        fix,
        ranks=tuple(sorted({r.rank for r in ranks})),
    )


def who(rank: RankRecord) -> str:
    """``rank 3 on node0``."""
    return f"rank {rank.rank} on {rank.host}"


def those(ranks: Sequence[RankRecord]) -> str:
    """``ranks 0-3,7`` or ``rank 5``."""
    from clusterlab.binding.records import cpu_list

    numbers = {r.rank for r in ranks if r.rank >= 0}
    return f"rank{'s' if len(numbers) > 1 else ''} {cpu_list(numbers)}"


def hardware(device: Device) -> str:
    """``0000:1b:00.0 (GPU 0, GPU-01a2…)``: the address first, the index with its space."""
    gpu = device.gpu
    if gpu is None:
        return device.key
    name = (
        f"nvidia-smi GPU {gpu.index}" if (gpu.uuid or "").startswith("GPU-") else f"GPU {gpu.index}"
    )
    return f"{device.key} ({name} of {device.host})"


def quoted(text: str, limit: int = 160) -> str:
    """A line of output, short enough to read."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= limit else line[: limit - 1] + "…"}"'
