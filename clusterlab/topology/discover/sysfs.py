"""Reading /sys: small files that may be missing, unreadable, or hold anything."""

from __future__ import annotations

import re
from pathlib import Path

from clusterlab.core.order import natural

_MOST_BYTES = 64 << 10
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,8}|[0-9]{1,18})")


def read_text(file: Path) -> str | None:
    """The file's text without surrounding blanks; None where it cannot be read or is empty."""
    try:
        with file.open("rb") as stream:
            text = stream.read(_MOST_BYTES)
    except OSError:  # absent, or the kernel refuses: speed of a NIC that is down gives EINVAL
        return None
    return text.decode("utf-8", "replace").strip() or None


def read_name(file: Path) -> str | None:
    """The file's text where it is one printable line: a name that may be shown."""
    text = read_text(file)
    return text if text and text.isprintable() else None


def read_number(file: Path) -> int | None:
    """The file's whole number, decimal or with 0x; None where there is none."""
    text = read_text(file)
    return int(text, 0 if "x" in text.lower() else 10) if text and _NUMBER.fullmatch(text) else None


def real_path(file: Path) -> Path | None:
    """Where the kernel really keeps it, links followed; None where that leads nowhere."""
    try:
        return file.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return None


def entries(folder: Path, pattern: str = "*") -> list[Path]:
    """The folder's entries that match, counted as people do (``mlx5_2`` before ``mlx5_10``)."""
    return sorted(folder.glob(pattern), key=lambda path: natural(path.name))
