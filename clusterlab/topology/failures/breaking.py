"""A fabric with some of it down or degraded, and what that took away. Pure.

``break_fabric(fabric, ["leaf3/spine2#1", "n5/nic3", "osfp4@n2", "n3/gpu2/pcie2:half"])``; the forms are
those of ``breakage.py``. What is already down stays down; a share of capacity is the smaller of what was
there and what is left. Parallel cables keep their numbers, so breaking one twice breaks one.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breakage import parse_breakage
from clusterlab.topology.failures.naming import Names, Pair, pairs_meant
from clusterlab.topology.parts import Link, some_cables

MAX_BREAKAGES = 10_000


def break_fabric(fabric: Fabric, what: Sequence[str]) -> Fabric:
    """``fabric`` with everything in ``what`` down or degraded, in both directions.

    Raises UsageError, with the nearest name, for what the fabric does not have.
    """
    if len(what) > MAX_BREAKAGES:
        raise UsageError(
            f"{len(what)} things to break",
            where="what to break",
            expected=f"at most {MAX_BREAKAGES}",
        )
    found = Names(fabric)
    left: defaultdict[Pair, dict[int | None, float]] = defaultdict(dict)
    for breakage in map(parse_breakage, what):
        for pair in pairs_meant(found, breakage):
            for key in (pair, (pair[1], pair[0])):
                shares = left[key]
                shares[breakage.cable] = min(breakage.left, shares.get(breakage.cable, 1.0))
    changes = {
        pair: _damaged([k for k in fabric.links_from(pair[0]) if k.dst == pair[1]], shares)
        for pair, shares in left.items()
    }
    text = json.dumps([fabric.digest, *what])
    return fabric.with_links(
        {pair: links for pair, links in changes.items() if links},
        description=f"{fabric.description} (broken: {_listed(what)})" if what else None,
        digest=hashlib.sha256(text.encode()).hexdigest() if what else None,
    )


def broken_yaml(base: str, digest: str, what: Sequence[str], *, routing: str = "") -> str:
    """The broken fabric as a file by reference: the design or path it starts from, what is broken, and
    the ``routing`` of its switches where that is known.
    """
    quoted = [json.dumps(item, ensure_ascii=False) for item in (base, digest, *what)]
    said = [f"routing: {json.dumps(routing)}"] if routing else []
    return "\n".join(
        [
            f"base: {quoted[0]}",
            f"digest: {quoted[1]} # of the base as it was broken",
            *said,
            "broken:",
            *(f"  - {item}" for item in quoted[2:]),
            "",
        ]
        if what
        else [f"base: {quoted[0]}", f"digest: {quoted[1]}", *said, "broken: []", ""]
    )


def _listed(what: Sequence[str]) -> str:
    more = f", … {len(what)} in all" if len(what) > 8 else ""
    return ", ".join(what[:8]) + more


def _damaged(links: Sequence[Link], left: dict[int | None, float]) -> list[Link]:
    """The links of one direction with the health of the named cables (None: of all) brought down."""
    hurt: list[Link] = []
    first = 0
    for link in links:
        base = replace(link, health=min(link.health, left.get(None, 1.0)))
        named = sorted(
            i - first for i in left if i is not None and first <= i < first + link.multiplicity
        )
        at = 0
        for i in named:
            share = min(base.health, left[first + i])
            hurt += _run(base, at, i - at) + _run(replace(base, health=share), i, 1)
            at = i + 1
        hurt += _run(base, at, link.multiplicity - at)
        first += link.multiplicity
    runs = groupby(hurt, key=lambda link: replace(link, multiplicity=1, ports=()))
    return [_joined(link, list(same)) for link, same in runs]


def _run(link: Link, first: int, cables: int) -> list[Link]:
    return [some_cables(link, first, cables)] if cables else []


def _joined(link: Link, same: Sequence[Link]) -> Link:
    ports = tuple(port for k in same for port in k.ports)
    return replace(link, multiplicity=sum(k.multiplicity for k in same), ports=ports)
