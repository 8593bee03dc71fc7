"""Reading ``tables/<library>-<version>.yaml``: a release's constants over those of the release it is like."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.formats.strict_yaml import read_yaml

_HEAD = ("library", "version", "like", "same_in", "source")
_FREE = ("bus_cap_GBps",)  # tables whose rows come and go


@cache
def known_versions(library: str) -> tuple[str, ...]:
    """Versions that have a file, in no order."""
    names = (entry.name for entry in files("clusterlab.cost.nccl").joinpath("tables").iterdir())
    return tuple(
        name.removeprefix(f"{library}-").removesuffix(".yaml")
        for name in names
        if name.startswith(f"{library}-") and name.endswith(".yaml")
    )


@cache
def load(library: str, version: str) -> tuple[dict[str, Any], str]:
    """The whole table of ``version`` (lists as tuples), and one line saying where it stands."""
    name = f"{library}-{version}.yaml"
    text = files("clusterlab.cost.nccl").joinpath("tables", name).read_text(encoding="utf-8")
    own: dict[str, Any] = read_yaml(text, file=name).data
    origin = own["source"]
    source = f"{library.upper()} {version}: {origin['repository']} " + str(
        origin.get("tag") or origin["commit"]
    )
    body = {key: _frozen(value) for key, value in own.items() if key not in _HEAD}
    if "like" not in own:
        return body, source
    parent, _ = load(library, str(own["like"]))
    return _over(parent, body, name), source


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def _over(base: dict[str, Any], changes: dict[str, Any], where: str) -> dict[str, Any]:
    """``base`` with ``changes`` laid over it, table by table. A key that ``base`` lacks is a mistake."""
    merged = dict(base)
    for key, value in changes.items():
        if key not in base:
            raise UsageError(f"unknown key {key!r}", where=where, expected=", ".join(base))
        nested = isinstance(value, dict) and isinstance(base[key], dict) and key not in _FREE
        merged[key] = _over(base[key], value, f"{where}: {key}") if nested else value
    return merged
