"""The vocabulary of causes: ``taxonomy.yaml``, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Cause:
    """``group``: intra, inter, fabric, library, method, host, none. ``shows``: how a curve tells it."""

    code: str
    group: str
    meaning: str
    shows: str
    look_at: str


@cache
def causes() -> dict[str, Cause]:
    """Every cause by its code, in the file's order."""
    text = Path(__file__).with_name("taxonomy.yaml").read_text(encoding="utf-8")
    return {code: Cause(code, *fields) for code, fields in yaml.safe_load(text).items()}
