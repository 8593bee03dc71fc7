"""The fabric of a run as a picture, with what its findings name marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.findings import Finding
from clusterlab.core.placement import Placement
from clusterlab.records.run_dir import RunDir
from clusterlab.report.page.beside import Drawing
from clusterlab.runs.hunting.file import read_hunt
from clusterlab.runs.run_fabric import fabric_of_run
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link

MOST_SVG_BYTES = 150_000
"""Of a larger picture the page says where it is to be had."""

_UNKNOWN_SHARE = 0.5
"""What is drawn as left of a link that a finding names without a rate."""


def drawn_fabric(
    run: RunDir, findings: Sequence[Finding], placement: Placement | None, *, paired: bool
) -> Drawing | None:
    """The picture; None where no fabric is known. ``paired``: the run's rows are of pairs or groups."""
    from clusterlab.topology.drawing.svg import fabric_svg

    fabric, whence = _fabric(run, placement)
    if fabric is None:
        return None
    left = _left(run, paired) if findings else {}
    named = {link: left.get(link) for finding in findings for link in finding.links}
    marked = _marked(fabric, named)
    svg = fabric_svg(marked or fabric)
    if len(svg) > MOST_SVG_BYTES:
        return None
    caption = f"{fabric.name}: {whence}."
    if marked is not None:
        known = any(share is not None for share in named.values())
        share = " with the share of their rate that is left, as measured" if known else ""
        caption += f" Marked red{share}: what the findings name. One of these may explain all that is slow."
    return Drawing(svg, caption)


def _fabric(run: RunDir, placement: Placement | None) -> tuple[Fabric | None, str]:
    try:
        fabric = fabric_of_run(run, unchanged=True)
        if fabric is not None:
            return fabric, "what the run was predicted on"
        fabric = fabric_of_run(run, unchanged=False)
        if fabric is not None:
            return fabric, "the design of that name; it has changed since the run"
        return _design(placement), "the shipped design of such hosts; the run named none"
    except ClusterlabError:
        return None, ""


def _design(placement: Placement | None) -> Fabric | None:
    from clusterlab.topology.design.load import load_fabric
    from clusterlab.topology.match import matching_design

    gpu = placement.ranks[0].gpu_name if placement and placement.ranks else None
    if placement is None or not gpu:
        return None
    hosts = len(placement.hosts)
    name = matching_design(gpu, hosts, -(-placement.world_size // hosts))
    return None if name is None else load_fabric(name)


def _left(run: RunDir, paired: bool) -> dict[str, float]:
    """The share of its rate that each slow link has left, as far as messages tell."""
    from clusterlab.runs.hunting.localise import localise_runs

    try:
        hunted = read_hunt(run.path)
        if hunted is not None:
            return _of_faults([dict(f) for f in hunted.get("faults", ())])
        found = localise_runs([run]) if paired else None
    except (ClusterlabError, KeyError, TypeError, ValueError):
        return {}
    if found is None:
        return {}
    faults = found.answer.faults
    return _of_faults([{"links": f.links, "rate": f.rate, "usual": f.usual} for f in faults])


def _of_faults(faults: Sequence[Mapping[str, object]]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for fault in faults:
        rate, usual, links = fault.get("rate"), fault.get("usual"), fault.get("links")
        if (
            isinstance(rate, float)
            and isinstance(usual, float)
            and isinstance(links, (list, tuple))
        ):
            share = min(0.99, max(0.0, rate / usual)) if usual > 0 else 0.0
            shares.update(dict.fromkeys(map(str, links), share))
    return shares


def _marked(fabric: Fabric, named: Mapping[str, float | None]) -> Fabric | None:
    """``fabric`` with the links of ``named`` hurt, in both directions; None where it has none of them."""
    changes: dict[tuple[str, str], list[Link]] = {}
    for name, share in named.items():
        src, _, dst = name.partition("->")
        for a, b in ((src, dst), (dst, src)):
            if fabric.find(a) is None:
                continue
            links = [link for link in fabric.links_from(a) if link.dst == b]
            if links:
                health = _UNKNOWN_SHARE if share is None else share
                changes[a, b] = [replace(k, health=min(k.health, health)) for k in links]
    return fabric.with_links(changes) if changes else None
