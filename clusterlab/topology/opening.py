"""A fabric by name or by file, whatever the file is: what ``--fabric`` takes everywhere.

A shipped design, ``host``, a design of one's own, a broken one (``base`` and ``broken``, as `topo break`
writes it; a lab's also says its ``routing``), or another tool's file (`topo import` says which).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.core.suggest import reject_unknown_keys, unknown
from clusterlab.formats.fields import sequence, text
from clusterlab.formats.strict_yaml import Document, read_yaml
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.design.hosts import like_file
from clusterlab.topology.design.load import (
    fabric_from_yaml,
    is_file,
    load_fabric,
    read_design,
)
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.routing.policy import POLICIES

_BROKEN_KEYS = ("base", "digest", "broken", "routing")
_MAX_BASES = 8


def open_fabric(name_or_path: str, *, depth: int = 0) -> Fabric:
    """The fabric called ``name_or_path``. Raises UsageError naming the file, the line and the field."""
    if not is_file(name_or_path):
        return load_fabric(name_or_path)
    path = Path(name_or_path)
    content = _own_content(path)
    if content is None:
        # Fourteen formats' readers, of which a design needs none.
        from clusterlab.topology.importing.files import read_files

        return read_files([path]).fabric
    if "base" in _top_keys(content):
        return _broken(read_yaml(content, file=str(path)), path, depth)
    return fabric_from_yaml(content, file=str(path), default_name=path.stem)


def open_with_findings(name_or_path: str) -> tuple[Fabric, list[Finding]]:
    """The fabric, and what is wrong with it: what its file showed and what ``checks`` find, worst first.

    Raises UsageError as ``open_fabric`` does.
    """
    path = Path(name_or_path)
    if is_file(name_or_path) and _own_content(path) is None:
        from clusterlab.topology.importing.files import read_files, with_checks

        imported = with_checks(read_files([path]))
        return imported.fabric, list(imported.findings)
    fabric = open_fabric(name_or_path)
    return fabric, check(fabric)


def files_behind(name_or_path: str) -> list[Path]:
    """The files that ``open_fabric`` reads for this name: its own, the bases of a broken one, the files whose
    hosts it takes.
    """
    found: list[Path] = []
    while is_file(name_or_path) and len(found) <= _MAX_BASES:
        path = Path(name_or_path)
        found.append(path)
        content = _own_content(path)
        if content is None:
            break
        document = read_yaml(content, file=str(path))
        if "base" in _top_keys(content):
            name_or_path = _base_of(document, path)
        elif (other := like_file(document)) is not None:
            name_or_path = str(other)
        else:
            break
    return found


def _own_content(path: Path) -> str | None:
    """The text of a design of ours, broken or whole; None for another tool's file."""
    if path.suffix not in (".yaml", ".yml"):
        return None
    content = read_design(path)
    keys = _top_keys(content)
    if keys & {"base", "hosts", "network"}:
        return content
    from clusterlab.topology.importing.registry import IMPORTERS

    return None if any(importer.recognise(content) for importer in IMPORTERS) else content


def _top_keys(content: str) -> set[str]:
    """The words before a colon at the left margin: enough to tell a design from another tool's YAML."""
    lines = (line for line in content.splitlines() if line[:1].isalpha())
    return {line.partition(":")[0].strip() for line in lines if ":" in line}


def _base_of(document: Document, path: Path) -> str:
    """The base of a broken fabric: a design's name, or a file beside this one or anywhere."""
    base = text(document, ("base",))
    beside = path.parent / base
    there = is_file(base) and not Path(base).is_absolute() and beside.is_file()
    return str(beside) if there else base


def _broken(document: Document, path: Path, depth: int) -> Fabric:
    reject_unknown_keys(document.data, _BROKEN_KEYS, where=document.where())
    base = _base_of(document, path)
    if depth >= _MAX_BASES:
        raise UsageError("bases that lead to each other in a circle", where=document.where("base"))
    fabric = open_fabric(base, depth=depth + 1)
    digest = text(document, ("digest",), default="", may_be_empty=True)
    if digest and fabric.digest and digest != fabric.digest:
        raise UsageError(
            f"{base} is not what it was when this was written",
            where=document.where("digest"),
            expected=f"a base with digest {digest[:12]}…, not {fabric.digest[:12]}…",
            fix="write it again with `clusterlab topo break`",
        )
    what = [text(document, ("broken", i)) for i in range(len(sequence(document, ("broken",))))]
    routing = text(document, ("routing",), default="")
    if routing:
        if routing not in POLICIES:
            raise unknown("routing policy", routing, POLICIES, where=document.where("routing"))
        fabric = replace(fabric, routing=routing)
    return break_fabric(fabric, what)
