"""Where designs are: those that travel with clusterlab by name, any other by its file."""

from __future__ import annotations

import difflib
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.core.suggest import did_you_mean

MAX_FILE_BYTES = 16 << 20
"""Designs are written by hand: a larger file is something else."""

_NEAREST = 8


def list_designs() -> list[str]:
    """Names of the designs that travel with clusterlab, sorted."""
    return sorted(p.stem for p in shipped("topologies").glob("*.yaml"))


def is_file(name_or_path: str) -> bool:
    """Whether ``--fabric`` names a file rather than a design: it has a slash or an extension, or is one."""
    path = Path(name_or_path)
    if "/" in name_or_path or path.suffix:
        return True
    return name_or_path not in list_designs() and path.is_file()


def shipped_design(kind: str, name: str, *, where: str | None = None) -> Path:
    """The file of a design by its name. Raises UsageError with the nearest names."""
    known = list_designs()
    if name in known:
        return shipped("topologies") / f"{name}.yaml"
    near = difflib.get_close_matches(name.lower(), known, n=_NEAREST, cutoff=0.0)
    raise UsageError(
        f"unknown {kind} {name!r} (a file? no such file: {name})",
        where=where,
        expected=f"one of {len(known)} designs (clusterlab topo list), such as {', '.join(near)}, or a file",
        fix=did_you_mean(name, known),
    )


def read_design(path: Path) -> str:
    """The text of a design file. Raises UsageError naming it when it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(
                "not a regular file", where=str(path), expected="a fabric design (YAML)"
            )
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(
                f"{path.stat().st_size} bytes",
                where=str(path),
                expected=f"a fabric design of at most {MAX_FILE_BYTES} bytes",
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            expected="a fabric design (YAML)",
        ) from None
    except UnicodeDecodeError:
        raise UsageError("not text", where=str(path), expected="a fabric design (YAML)") from None
