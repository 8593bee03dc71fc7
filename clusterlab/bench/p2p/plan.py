"""What a probe measures, in order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from clusterlab.core.errors import UsageError
from clusterlab.core.p2p import HOST, P2pGpu, PeerAccess, Touch, Way

ACCESS_BYTES = (1, 2, 4, 8, 16)
"""Widths that a thread of a GPU loads or stores at once."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CopyStep:
    """One point of the copies."""

    way: Way
    size_bytes: int


@dataclass(frozen=True, slots=True)
class KernelStep:
    """One point of the kernel."""

    touch: Touch
    programs: int
    access_bytes: int
    size_bytes: int


def all_pairs(gpus: int) -> list[Pair]:
    """Every two GPUs once, the lower first."""
    return list(combinations(range(gpus), 2))


def parse_pairs(text: str, gpus: int, *, where: str = "--pairs") -> list[Pair]:
    """``0-1,2-3``, or ``all``. Raises UsageError for what is no pair of visible GPUs."""
    if text == "all":
        return all_pairs(gpus)
    found: dict[Pair, None] = {}
    for part in text.split(","):
        first, dash, second = part.strip().partition("-")
        numbers = [int(x) for x in (first, second) if x.isascii() and x.isdecimal() and len(x) < 6]
        if not dash or len(numbers) != 2 or numbers[0] == numbers[1] or max(numbers) >= gpus:
            raise UsageError(
                f"no pair of GPUs: {part.strip()!r}",
                where=where,
                expected=f"two different numbers below {gpus}, such as 0-1, with commas between pairs",
            )
        found[min(numbers), max(numbers)] = None
    return list(found)


def copy_steps(gpus: int, pairs: Sequence[Pair], sizes: Sequence[int]) -> list[CopyStep]:
    """Each GPU of a pair (all, where there is none) in itself and with the host; then pair by pair.

    One way, the other, and both at once.
    """
    involved = sorted({gpu for pair in pairs for gpu in pair}) or list(range(gpus))
    ways = []
    for gpu in involved:
        ways += [Way(gpu, gpu), Way(HOST, gpu), Way(gpu, HOST), Way(HOST, gpu, both=True)]
    for a, b in pairs:
        ways += [Way(a, b), Way(b, a), Way(a, b, both=True)]
    return [CopyStep(way, size) for way in ways for size in sizes]


def kernel_steps(
    gpus: Sequence[P2pGpu],
    pairs: Sequence[Pair],
    access: Collection[PeerAccess],
    *,
    programs: Sequence[int],
    access_bytes: Sequence[int],
    size_bytes: int,
) -> list[KernelStep]:
    """Every number of programs at every width for the first pair that may; the others at the most of both.

    Where no pair may, GPU 0 in its own memory. ``programs`` beyond a GPU's SMs are left out; all its SMs
    are always in.
    """
    may = {(a.src, a.dst) for a in access if a.cuda}
    touches = [
        Touch(kind, a, b)
        for pair in pairs
        for a, b in (pair, pair[::-1])
        if (a, b) in may
        for kind in ("load", "store")
    ]
    swept = [t for t in touches if (t.gpu, t.peer) == (touches[0].gpu, touches[0].peer)]
    if not touches:
        swept = touches = [Touch("local", 0, 0)]
    steps = []
    for touch in touches:
        sms = gpus[touch.gpu].sms
        counts = sorted({min(p, sms) for p in programs} | {sms}) if touch in swept else [sms]
        widths = sorted(access_bytes) if touch in swept else [max(access_bytes)]
        steps += [KernelStep(touch, n, width, size_bytes) for width in widths for n in counts]
    return steps
