"""Which expert takes which token, forced instead of learned: loads that a mixture's network must stand.

A choice depends on (workload, seed, step, sample, position) only, so the reference and every mesh force the
same ones, and the bytes of a step are known before it runs. Only ragged, rotating and bursty differ from step
to step. Which of a token's experts come together is mixed, so that as many of them share a node as by chance.

    balanced     every expert takes as many tokens            hot_expert  one takes half of all tokens
    hot_rank     the experts of one rank take half of all     zero_load   those of one rank take none
    ragged       sequences end early, each at another place   rotating    the hot expert is another each step
    bursty       one step of every four is hot_rank, the others are balanced
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from clusterlab.core.errors import UsageError
from clusterlab.trainers.config import Setup

Chosen = tuple[int, ...]
"""The experts of one token, none twice; empty where a sequence has ended."""

WINDOW = 4
"""Steps of which one is a burst."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a workload is made for: ``ranks`` that share ``experts``, in steps of ``batch`` sequences."""

    experts: int
    ranks: int
    top_k: int
    sequence: int
    batch: int
    seed: int

    @property
    def own(self) -> int:
        """Experts of a rank."""
        return self.experts // self.ranks

    def of_rank(self, rank: int) -> range:
        """The experts that ``rank`` has."""
        return range(rank * self.own, (rank + 1) * self.own)


def load_of(setup: Setup) -> Load:
    """The load of a run; its ranks are those of ``ep`` also where the reference runs it on one."""
    model, train = setup.model, setup.train
    return Load(model.experts, setup.mesh.ep, model.top_k, model.sequence, train.batch, train.seed)


def choices(setup: Setup, step: int, sample: int) -> list[Chosen]:
    """The forced choices of a sample's positions in ``step``."""
    return WORKLOADS[setup.train.routing](load_of(setup), step, sample)


def balanced(load: Load, _step: int, sample: int) -> list[Chosen]:
    """As many tokens for each expert, exactly, in every as many tokens as there are experts."""
    everyone = range(load.experts)
    return [_evenly(everyone, load.top_k, load, token) for token in _tokens(load, sample)]


def hot_expert(load: Load, _step: int, sample: int) -> list[Chosen]:
    """Every other token chooses the hot expert first; all other choices are even among the rest."""
    return _around(hottest(load), load, sample)


def rotating(load: Load, step: int, sample: int) -> list[Chosen]:
    """As ``hot_expert``, and the hot one moves on by one each step."""
    return _around((hottest(load) + step) % load.experts, load, sample)


def hot_rank(load: Load, _step: int, sample: int) -> list[Chosen]:
    """Every other token chooses experts of the hot rank, as far as it has enough; the others evenly."""
    hot = load.of_rank(hottest(load) // load.own)
    rest = [expert for expert in range(load.experts) if expert not in hot]
    few = min(load.top_k, len(hot))
    found = []
    for token in _tokens(load, sample):
        if token % 2:
            found.append(_evenly(range(load.experts), load.top_k, load, token // 2))
        else:
            first = _evenly(hot, few, load, token // 2)
            found.append(first + _evenly(rest, load.top_k - few, load, token // 2))
    return found


def zero_load(load: Load, _step: int, sample: int) -> list[Chosen]:
    """Nobody chooses the experts of the cold rank; the others are even."""
    cold = load.of_rank(hottest(load) // load.own)
    rest = [expert for expert in range(load.experts) if expert not in cold]
    if len(rest) < load.top_k:
        raise UsageError(
            f"zero_load leaves {len(rest)} of {load.experts} experts for top_k {load.top_k}",
            where="routing", expected="top_k experts or more on the other ranks",
            fix="take a smaller top_k" if rest else "take ep 2 or more",
        )  # fmt: skip
    return [_evenly(rest, load.top_k, load, token) for token in _tokens(load, sample)]


def ragged(load: Load, step: int, sample: int) -> list[Chosen]:
    """Sequences are padded: from one to the next they get longer by sequence / batch, and start over."""
    age = (sample + step + load.seed) % load.batch
    length = max(1, load.sequence * (age + 1) // load.batch)
    full = balanced(load, step, sample)
    return [chosen if position < length else () for position, chosen in enumerate(full)]


def bursty(load: Load, step: int, sample: int) -> list[Chosen]:
    """One step of each WINDOW is a burst on the hot rank: which one, depends on seed and window."""
    burst = _mixed(load.seed, step // WINDOW) % WINDOW == step % WINDOW
    return (hot_rank if burst else balanced)(load, step, sample)


WORKLOADS: dict[str, Callable[[Load, int, int], list[Chosen]]] = {
    "balanced": balanced,
    "hot_expert": hot_expert,
    "hot_rank": hot_rank,
    "ragged": ragged,
    "zero_load": zero_load,
    "rotating": rotating,
    "bursty": bursty,
}
"""By name; Megatron-LM #7488 proposes such a list for its own mixtures."""


STEPWISE = frozenset({"ragged", "rotating", "bursty"})
"""Those that are another each step."""


def hottest(load: Load) -> int:
    """The expert that is hot, or whose rank is hot or cold."""
    return _mixed(load.seed, 0) % load.experts


def _around(hot: int, load: Load, sample: int) -> list[Chosen]:
    rest = [expert for expert in range(load.experts) if expert != hot]
    found = []
    for token in _tokens(load, sample):
        # With top_k = experts there is no choice: everyone takes the hot one too.
        first = (hot,) if token % 2 == 0 or load.top_k > len(rest) else ()
        found.append(first + _evenly(rest, load.top_k - len(first), load, token // 2))
    return found


def _tokens(load: Load, sample: int) -> range:
    """Numbers of a sample's tokens in its step."""
    return range(sample * load.sequence, (sample + 1) * load.sequence)


def _evenly(experts: Sequence[int], count: int, load: Load, token: int) -> Chosen:
    """``count`` different ones of ``experts``: each of as many tokens in turn begins at another of them and
    takes those at the same distances from there, which are mixed anew for the next as many.
    """
    if not count:
        return ()
    block, place = divmod(token, len(experts))
    distances = _distances(len(experts), count, load.seed, block)
    return tuple(experts[(place + distance) % len(experts)] for distance in distances)


@lru_cache(maxsize=256)
def _distances(below: int, count: int, seed: int, block: int) -> tuple[int, ...]:
    """``count`` different numbers below ``below``."""
    numbers = list(range(below))
    for i in range(count):
        j = i + _mixed(seed, block, i) % (below - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return tuple(numbers[:count])


def _mixed(*numbers: int) -> int:
    """A well mixed number of some (the finaliser of splitmix64)."""
    value = 0
    for number in numbers:
        value = (value + number + 1) * 0x9E3779B97F4A7C15 % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        value ^= value >> 31
    return value
