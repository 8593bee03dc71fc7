"""What the hypotheses of one table start from: its points, its machines, the expected curve. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.verdict.why.described import Said
from clusterlab.verdict.why.likelihood import Array, Points, shares
from clusterlab.verdict.why.world import World

_SHARP = 8.0
_SLOWER_FLOOR = 0.1

_OF_BYTES = 1.5
"""What else grows with the bytes is at most so many times their own time: the rest is steps."""


@dataclass(frozen=True)
class Scene:
    """``world`` is the machines as they should be; ``points`` in order of size; ``said`` what the run says
    of itself, ``cleared`` the causes that its own log rules out. ``guessed``: the GPU is not named, an
    ordinary one stands in. ``offset``: log of a better prediction over the world's, at each point; every
    curve of the world is moved by it.
    """

    world: World
    points: tuple[MeasuredPoint, ...]
    said: tuple[Said, ...] = ()
    guessed: bool = False
    offset: Array | float = 0.0
    cleared: frozenset[str] = frozenset()

    @cached_property
    def sizes(self) -> list[int]:
        """Of the points, rising, repeats included."""
        return [point.size_bytes for point in self.points]

    @cached_property
    def data(self) -> Points:
        """Logarithms of sizes and times."""
        times = np.log([point.time_us for point in self.points])
        return Points(np.log(np.array(self.sizes, float)), times)

    @cached_property
    def expected(self) -> Array:
        """Log time of the machines as they should be."""
        return np.asarray(np.log(self.world.curve(self.sizes)) + self.offset, dtype=np.float64)

    @cached_property
    def ratio(self) -> Array:
        """Log of measured over expected time."""
        return np.asarray(self.data.log_time - self.expected, dtype=np.float64)

    @property
    def nodes(self) -> int:
        """Nodes as NCCL counts them."""
        return self.world.comm.nodes

    @property
    def per_node(self) -> int:
        """Ranks of a node."""
        return self.world.comm.ranks_per_node

    @property
    def collective(self) -> str:
        """Our name of it."""
        return self.world.case.collective

    @cached_property
    def choices(self) -> list[tuple[str, str]]:
        """NCCL's own algorithm and protocol at each point."""
        return self.world.choices(self.sizes)

    @property
    def uses_nvls(self) -> bool:
        """Whether NCCL would take NVLink SHARP somewhere."""
        return any(name.startswith("nvls") for name, _ in self.choices)

    def steps_share(self, log_curve: Array) -> Array:
        """Share of latency in each point's time by ``log_curve``."""
        return shares(self.data.log_size, log_curve)[0]

    def bytes_share(self, log_curve: Array) -> Array:
        """Share of bytes in each point's time by ``log_curve``."""
        return shares(self.data.log_size, log_curve)[1]

    def added(self, log_curve: Array, along: float = 0.0) -> Array:
        """The same floor and the same rate of bytes. Of what else grows with the bytes (pipes that fill,
        chunks too small for the links) the share ``along`` is slower in proportion.

        So it is where published systems differ in a link's rate alone: by less than the plateaus' ratio
        below some 8 MiB, by all of it from 32 MiB on.
        """
        log_size = self.data.log_size
        best = float(np.max(log_size - self.expected))  # log of the best bytes per µs
        slower = np.exp(best - float(np.max(log_size - log_curve)))
        wire = np.exp(log_size - best)
        least = np.exp(float(np.min(self.expected)))
        rest = np.clip(np.exp(self.expected) - least - wire, 0.0, _OF_BYTES * wire)
        floor = max(0.0, np.exp(float(np.min(log_curve))) - least)
        times = np.exp(self.expected) + floor + max(0.0, slower - 1) * (wire + along * rest)
        return np.asarray(np.log(times), dtype=np.float64)

    def sharp(self, log_curve: Array) -> Array:
        """The same resource at the same rate, felt only where it is the longest: no time is added to what is
        longer already, and the slower floor counts where there is one.
        """
        rate = float(np.max(self.data.log_size - log_curve))  # the best bytes per µs
        parts = [self.expected, self.data.log_size - rate]
        floor = float(np.min(log_curve))
        if floor > float(np.min(self.expected)) + _SLOWER_FLOOR:
            parts.append(np.full(len(parts[0]), floor))
        return np.asarray(np.logaddexp.reduce([_SHARP * p for p in parts]) / _SHARP, np.float64)

    def log_curve(self, world: World) -> Array:
        """Log time of ``world`` at the points' sizes."""
        return np.asarray(np.log(world.curve(self.sizes)) + self.offset, dtype=np.float64)

    def under(self, variables: Mapping[str, str]) -> Array | None:
        """Log time under NCCL's variables; None where NCCL would stop or the model cannot say."""
        try:
            return self.log_curve(self.world.with_variables(variables))
        except UsageError:
            return None
