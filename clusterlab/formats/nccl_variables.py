"""Which variables NCCL says it took from its environment or its configuration files, and which it refused.

NCCL puts the settings of /etc/nccl.conf and ~/.nccl.conf into its environment (``setEnvFile`` in
src/misc/param.cc), so its log names both alike. Sources: every INFO of NCCL_ENV in NVIDIA/nccl src/ of
versions 2.18 to 2.30: ``NCCL_X set by environment to 1.``, ``NCCL_IB_HCA set to mlx5``, ``Comm config minCTAs
reset to NCCL_MIN_CTAS=4``, ``Invalid value a for NCCL_X, using default 0.``
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.formats.nccl_log_lines import LogLine

_NAME = r"(?P<name>[NR]CCL_[A-Z0-9_]{1,80})"
_TAKEN = (
    re.compile(_NAME + r" set (?:by environment )?to (?P<value>.{0,4096})"),
    re.compile(r"Comm config \w{1,40} reset to " + _NAME + r"=(?P<value>\S{1,1024})"),
    re.compile(r"Parsed environment variable " + _NAME + r"=(?P<value>\S{1,1024}) to"),
)
_REFUSED = (
    re.compile(r"Invalid value (?P<value>.{0,1024}?) for " + _NAME + r", using default"),
    re.compile(r"Unable to recognize " + _NAME + r"=(?P<value>.{0,1024}?), using"),
    re.compile(
        r"Unknown CTA policy (?P<value>\S{1,1024}) passed as (?P<name>environment variable)"
    ),
    re.compile(_NAME + r" (?P<value>-?\d{1,20}) is (?:too low|not valid|not a valid)"),
    re.compile(r"Warning: ENV " + _NAME + r" is unused(?P<value>)"),
)


@dataclass(frozen=True, slots=True)
class LogVariables:
    """Name → value as printed. ``refused``: NCCL went on with its default."""

    taken: dict[str, str]
    refused: dict[str, str]


def log_variables(lines: Iterable[LogLine]) -> LogVariables:
    """All variables named in ``lines``; the last word counts."""
    found = LogVariables({}, {})
    for line in lines:
        message = line.message
        if "CCL_" not in message and "CTA policy" not in message:
            continue
        for patterns, into in ((_TAKEN, found.taken), (_REFUSED, found.refused)):
            match = next(filter(None, (p.match(message.strip()) for p in patterns)), None)
            if match is not None:
                name = match["name"]
                name = "NCCL_CTA_POLICY" if name.startswith("environment") else name
                into[name] = _value(match["value"])
    return found


def _value(text: str) -> str:
    """Numbers are printed with a full stop behind them, words mostly without."""
    text = text.strip()
    return text[:-1] if re.fullmatch(r"-?\d+\.", text) else text
