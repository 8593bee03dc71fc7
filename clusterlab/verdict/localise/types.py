"""What is measured to find a fault, what may be at fault, and what is found. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

Way = Literal["send", "send_recv", "ring", "host", "clock", "port"]
"""A message one way or both ways (at once or in turn), a collective of a group, and what a rank says of its
host: the share of its cores that is free, how fast one of them computes, whether its NIC's port is up.
"""

OF_HOSTS: frozenset[str] = frozenset({"host", "clock", "port"})
"""Ways that send nothing."""

ABSOLUTE: frozenset[str] = frozenset({"host", "port"})
"""Ways whose expectation is sure: cores are free, ports are up."""

DEAD = 0.02
"""The share of its rate that stands for nothing at all: a message that failed, a NIC that is down."""

PORT_FULL = 2 * DEAD
"""A port is up or down, nothing between: its state is that of a way so little full that only what is dead
shows."""

PORT_DOWN = DEAD / PORT_FULL
"""What is seen of a port that is down; of one that is up, 1."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing to measure, by ``ranks`` in the order that it counts them; of a ``port`` the rank that looks
    and the NIC's node of the network.
    """

    way: Way
    ranks: tuple[int, ...]


Round = tuple[Probe, ...]
"""What is measured at the same time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a probe: ``rate`` in GB/s, of a host a share of what is usual; 0: it failed.

    ``expected`` in the same unit (None: not known), ``noise`` the relative error of ``rate`` alone. ``back``:
    of messages both ways that were taken in turn, the rate of the way back; ``rate`` is the way there.
    """

    rate: float
    expected: float | None = None
    noise: float = 0.0
    back: float | None = None


@dataclass(frozen=True, eq=False)
class Components:
    """What may be at fault. Each is a set of *resources* (numbers: one direction of a cable, the cores of a
    host, a rank) that a fault slows alike.

    ``of[start[r]:start[r + 1]]`` are the components of resource r. ``weight``: how likely each is beside
    the others, before anything is measured. ``links`` are the directed links a finding names.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    weight: Floats
    start: Longs
    of: Longs
    links: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Crossed:
    """Which components touch which probes, each pair once, by component.

    ``full`` (0 to 1] is how full the component's part of the way is, of what is fullest on it: a way that
    is half full is slow only when less than half is left. ``share`` (0 to 1] of the probe's bytes goes
    there; ``chance``: not a share but the chance that all of it does (a hash nobody knows).
    """

    component: Longs
    probe: Longs
    full: Floats
    share: Floats
    probes: int
    chance: bool = False


def some_of(crossed: Crossed, chosen: slice | Bools) -> Crossed:
    """The ``chosen`` pairs of component and probe."""
    return Crossed(
        crossed.component[chosen],
        crossed.probe[chosen],
        crossed.full[chosen],
        crossed.share[chosen],
        crossed.probes,
        crossed.chance,
    )


@dataclass(frozen=True, slots=True)
class Suspect:
    """Components of which one is at fault (several: nothing that was measured tells them apart), the
    likeliest kind first.

    ``confidence`` 0 to 1; ``left`` the share of its rate that is left; ``slow`` are the numbers of those of
    the ``crossing`` measurements that should show it and do. ``rate`` and ``usual``: the median of what
    they got and of what they get when all is well, in their own unit.
    """

    components: tuple[str, ...]
    kinds: tuple[str, ...]
    confidence: float
    left: float
    slow: tuple[int, ...]
    crossing: int
    rate: float
    usual: float
    links: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """``n3/nic0 ↔ leaf1``: those of the first one's kind; the rest are ``others``."""
        mine = [c for c, k in zip(self.components, self.kinds, strict=True) if k == self.kinds[0]]
        more = f" or {len(mine) - MOST_SAID} more" if len(mine) > MOST_SAID else ""
        return " or ".join(mine[:MOST_SAID]) + more

    @property
    def others(self) -> tuple[str, ...]:
        """Components of other kinds that are not told apart from it."""
        both = zip(self.components, self.kinds, strict=True)
        return tuple(c for c, k in both if k != self.kinds[0])

    @property
    def several(self) -> bool:
        """Whether its name names more than one."""
        return self.kinds.count(self.kinds[0]) > 1


MOST_SAID = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """What measurements say. ``faults``: those that are needed to explain them, each with its confidence;
    ``ranking``: where one is sought, the likeliest first, also below what would be named.

    ``healthy`` is the probability that nothing is slower than ``sought``, of what was ``looked_at`` of
    ``components``. ``noise``: the relative spread of what is well, ``pace`` its share of what was
    expected, of the kind of measurement that is furthest off.
    """

    faults: tuple[Suspect, ...]
    ranking: tuple[Suspect, ...]
    healthy: float
    looked_at: int
    components: int
    noise: float
    sought: float
    pace: float = 1.0


def grouped(start_of: Sequence[int] | Longs, resources: int) -> Longs:
    """Where each of ``resources`` begins in its sorted list ``start_of``."""
    return np.searchsorted(start_of, np.arange(resources + 1)).astype(np.int64)
