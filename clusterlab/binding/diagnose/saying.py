"""How rules speak: findings with the taxonomy's severity, ranks and hardware in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.codes import CODES
from clusterlab.binding.diagnose.scene import Device
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity

_OF_ONE_RANK = re.compile(r"rank ([0-9]{1,6}) on \S+: (.*)", re.DOTALL)


def finding(
    code: str,
    ranks: Iterable[RankRecord],
    evidence: Sequence[str],
    fix: str,
    *,
    severity: Severity | None = None,
) -> Finding:
    """A finding of the taxonomy's severity unless ``severity`` says what it did here."""
    return Finding(
        code,
        severity or CODES[code].severity,
        tuple(alike(evidence)),
        fix,
        ranks=tuple(sorted({r.rank for r in ranks})),
    )


def alike(evidence: Iterable[str]) -> list[str]:
    """The lines, each once; what several ranks show alike is one line with all their numbers."""
    from clusterlab.core.order import number_list

    ranks: dict[str, set[int]] = {}
    first: dict[str, str] = {}
    for line in evidence:
        match = _OF_ONE_RANK.fullmatch(line)
        text = match[2] if match else line
        first.setdefault(text, line)
        ranks.setdefault(text, set())
        if match:
            ranks[text].add(int(match[1]))
    return [
        f"ranks {number_list(numbers)}: {text}" if len(numbers) > 1 else first[text]
        for text, numbers in ranks.items()
    ]


def who(rank: RankRecord) -> str:
    """``rank 3 on node0``."""
    return f"rank {rank.rank} on {rank.host}"


def those(ranks: Sequence[RankRecord]) -> str:
    """``ranks 0-3,7`` or ``rank 5``."""
    from clusterlab.core.order import number_list

    numbers = {r.rank for r in ranks if r.rank >= 0}
    return f"rank{'s' if len(numbers) > 1 else ''} {number_list(numbers)}"


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
