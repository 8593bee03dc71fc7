"""NCCL's and RCCL's tuning constants by version, read from ``tables/*.yaml``.

A file holds what a release changed against the one it is ``like``; the newest is written in full. Each
names the repository, tag and files that its figures stand in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.loading import known_versions, load

Library = Literal["nccl", "rccl"]
Triple = tuple[float, float, float]
"""LL, LL128, Simple; or one node, two, four and more."""

_ANY_PATCH = 10**6


@dataclass(frozen=True, slots=True)
class Constants:
    """One release's constants. ``rules``, ``channels`` and ``threads`` name where its arithmetic differs
    from other releases' (see the newest file); ``rccl`` is what RCCL has instead. ``source`` says where the
    figures stand, ``note`` why they are not those of the version asked for, or is empty.
    """

    library: Library
    version: str
    source: str
    note: str
    base_us: Mapping[str, Triple]
    hop_us: Mapping[str, Mapping[str, Triple]]
    generations: Mapping[str, int | None]
    ll_max_GBps: Mapping[str, Triple]
    ring_ll128_per_channel_GBps: Mapping[str, Triple]
    tree_ll128_per_channel_GBps: Mapping[str, Triple]
    tree_per_channel_GBps: Mapping[str, Triple]
    nvls_tree_per_channel_GBps: Mapping[str, Triple]
    nvls_efficiency: Mapping[str, float]
    tree_correction: Mapping[str, tuple[float, ...]]
    rules: Mapping[str, Any]
    channels: Mapping[str, Any]
    threads: Mapping[str, Any]
    search: Mapping[str, Mapping[str, tuple[float, ...] | None]]
    links_GBps: Mapping[str, float | None]
    rccl: Mapping[str, Any]

    def generation(self, compute_capability: int | None) -> str:
        """The row of the per-generation tables for GPUs of at least ``compute_capability``."""
        sm = compute_capability or 0
        rows = [(least, name) for name, least in self.generations.items() if least is not None]
        if self.rules["generation"] == "exact":
            return next((name for least, name in rows if least == sm), "volta")
        return max(row for row in rows if row[0] <= sm)[1]

    def search_speeds_GBps(
        self, compute_capability: int | None
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Channel speeds that the graph search tries inside a host and between hosts, fastest first."""
        intra, inter = (
            _not_above(self.search[side], "sm", compute_capability)
            for side in ("intra_GBps", "inter_GBps")
        )
        return intra, inter

    def nvlink_GBps(self, compute_capability: int) -> float:
        """What NCCL takes one NVLink to carry per direction. GA10x (sm_86) has slower ones."""
        exact = self.links_GBps.get(f"nvlink_sm{compute_capability}")
        if exact is not None:
            return exact
        others = {name: value for name, value in self.links_GBps.items() if name != "nvlink_sm86"}
        found: float = _not_above(others, "nvlink_sm", compute_capability)
        return found


def _not_above(table: Mapping[str, Any], prefix: str, compute_capability: int | None) -> Any:
    """The entry ``<prefix><sm>`` with the greatest sm not above, else the least."""
    rows = sorted(
        (int(name.removeprefix(prefix)), value)
        for name, value in table.items()
        if name.startswith(prefix) and value is not None
    )
    below = [value for sm, value in rows if sm <= (compute_capability or 0)]
    return below[-1] if below else rows[0][1]


def parse_version(text: str) -> tuple[int, int, int] | None:
    """``2.26.6+cuda12.8``, ``NCCL 2.23``, ``22809`` as numbers; None where there is none in it.

    A version without its last number means the last release of that family.
    """
    code = re.fullmatch(r"\s*(\d{1,2})(\d{2})(\d{2})\s*", text)
    if code:
        return int(code[1]), int(code[2]), int(code[3])
    found = re.search(r"(?<![\d.])(\d{1,2})[., ]+(\d{1,3})(?:[., ]+(\d{1,4}))?(?!\d)", text)
    if not found:
        return None
    major, minor, patch_text = found.groups()
    return int(major), int(minor), int(patch_text) if patch_text else _ANY_PATCH


_TYPED = re.compile(
    r"\d{5,6}|(?:[NR]CCL +)?v?\d{1,2}(?:\.\d{1,3}){1,2}(?:-\d{1,3})?(?:\+cuda\d+(?:\.\d+)*)?",
    re.ASCII | re.IGNORECASE,
)


def typed_version(text: str, *, where: str) -> str:
    """``text``, which names one version and nothing else, without spaces around it. Raises UsageError.

    NCCL's tags (``v2.27.5-1``), packages (``2.27.5-1+cuda12.9``) and codes (``22705``) are taken too.
    """
    version = text.strip()
    if not _TYPED.fullmatch(version):
        raise UsageError(f"{text!r}", where=where, expected="a version, as 2.27.5")
    return version


def constants_for(version: str, library: Library = "nccl") -> Constants:
    """The constants of the newest known release not above ``version``; the newest for an empty one.

    ``note`` says so where ``version`` is older or newer than all known, or cannot be read.
    """
    return _constants_for(version, library)


@cache
def _constants_for(version: str, library: Library) -> Constants:
    known = sorted((parse_version(v) or (0, 0, 0), v) for v in known_versions(library))
    oldest, newest = known[0][1], known[-1][1]
    wanted = parse_version(version)
    if wanted is None:
        unread = f"no version in {version!r}; constants of {newest}" if version.strip() else ""
        return replace(_read(library, newest), note=unread)
    if wanted < known[0][0]:
        return replace(
            _read(library, oldest), note=f"{version} is older than the oldest known, {oldest}"
        )
    chosen = [name for numbers, name in known if numbers <= wanted][-1]
    newer = wanted[:2] > known[-1][0][:2]
    note = f"{version} is newer than the newest known, {newest}" if newer else ""
    return replace(_read(library, chosen), note=note)


@cache
def _read(library: Library, version: str) -> Constants:
    data, source = load(library, version)
    fields = set(Constants.__dataclass_fields__) - {"library", "version", "source", "note", "rccl"}
    return Constants(
        library=library,
        version=version,
        source=source,
        note="",
        rccl=data if library == "rccl" else {},
        **{name: data.get(name, {}) for name in fields},
    )
