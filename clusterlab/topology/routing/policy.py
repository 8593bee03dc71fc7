"""How a switch chooses among equally good cables: static hash, adaptive, or fixed by destination.

The hash is splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
2014, the finalizer): real switches keep theirs secret, and any good one spreads alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterlab.core.suggest import unknown

Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class StaticHash:
    """ECMP: cable number hash(seed, source, destination, flow label, switch) modulo the live equal ones.

    A flow keeps its cable however full that is. ``alike``: all switches hash the same way, as switches
    of one make do out of the box; what one tier sent together, the next keeps together (polarisation).
    """

    seed: int = 0
    alike: bool = False

    name: Literal["hash"] = "hash"


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Per packet, in proportion to the capacity left of the equal ones: a fluid.

    A single path is one packet's, drawn with those shares; ``load.fluid_load`` has the shares themselves.
    """

    seed: int = 0

    name: Literal["adaptive"] = "adaptive"


@dataclass(frozen=True, slots=True)
class Pinned:
    """One cable per switch and destination, as InfiniBand's forwarding tables: d-mod-k.

    Destination port number d (counted leaf after leaf) goes up by cable d mod k₁ at a leaf and
    (d div k₁) mod k₂ at a spine, k the most uplinks a switch of that tier has, and down by the parallel
    cable of the same number (Zahavi, "D-Mod-K routing
    providing non-blocking traffic for shift permutations on real life fat trees", 2010).
    """

    name: Literal["pinned"] = "pinned"


Policy = StaticHash | Adaptive | Pinned

POLICIES: dict[str, type[StaticHash] | type[Adaptive] | type[Pinned]] = {
    "hash": StaticHash,
    "adaptive": Adaptive,
    "pinned": Pinned,
}


def policy_named(name: str) -> Policy:
    """The policy called ``name`` with its defaults. Raises UsageError with the nearest name."""
    if name not in POLICIES:
        raise unknown("routing policy", name, POLICIES, where="policy")
    return POLICIES[name]()


def splitmix64(words: Words) -> Words:
    """The hash: one 64-bit word in, one out, a bijection. Arithmetic is modulo 2⁶⁴."""
    with np.errstate(over="ignore"):
        z = words + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        mixed: Words = z ^ (z >> np.uint64(31))
    return mixed


def flow_hash(
    seed: int,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    labels: NDArray[np.integer] | None,
) -> Words:
    """One word per flow from (seed, source, destination, flow label): what every switch hashes on."""
    start = np.full(len(src), seed & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = splitmix64(splitmix64(start) + src.astype(np.uint64))
        mixed = splitmix64(mixed + dst.astype(np.uint64))
        if labels is not None:
            mixed = splitmix64(mixed + labels.astype(np.uint64))
    return mixed


def expected_collisions(flows: int, cables: int) -> float:
    """Flows that a uniform hash is expected to put on a cable another flow already has.

    m flows on k cables leave k (1 - 1/k)^m cables empty, so m - k (1 - (1 - 1/k)^m) flows share.
    """
    if cables < 1:
        return 0.0
    return float(flows - cables * (1 - (1 - 1 / cables) ** flows))
