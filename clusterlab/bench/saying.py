"""What the library said of each point of a step, told to rank 0, which writes the rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from clusterlab.bench.control import Control
from clusterlab.bench.groups import ranks_of
from clusterlab.core.measurement import LibrarySaid
from clusterlab.core.rows import Point

_BYTES = 512


def said_of_each(control: Control, step: Sequence[Point], mine: LibrarySaid) -> list[LibrarySaid]:
    """Of each point what its first rank heard; ``mine`` is what this rank heard of its own. Collective.

    Where rank 0 takes part, each of the point's ranks keeps its own: nothing needs to be told.
    """
    return [
        mine if 0 in ranks_of(point) else _told(control, ranks_of(point)[0], mine) for point in step
    ]


def _told(control: Control, source: int, mine: LibrarySaid) -> LibrarySaid:
    text = json.dumps(asdict(mine)).encode()
    if len(text) > _BYTES:  # names of that length are no transport's; the rest is worth more
        text = json.dumps(asdict(mine) | {"transport": None}).encode()
    shared = control.share(text.ljust(_BYTES) if control.rank == source else None, source, _BYTES)
    return LibrarySaid(**json.loads(shared))
