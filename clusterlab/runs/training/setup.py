"""From what was typed for ``clusterlab train`` to a setup: a mesh of the ranks, sizes that fit it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite, prod

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.trainers.config import (
    EXPERT_BACKENDS,
    ROUTINGS,
    MeshConfig,
    ModelConfig,
    Setup,
    TrainConfig,
    check,
)

STRATEGIES = ("dp", "tp", "sp", "pp", "ep", "3d")

DTYPES = ("float64", "float32", "bfloat16", "fp8")
"""``fp8``: bfloat16 whose MLPs multiply in 8 bits."""

_OWN_AXIS = {"dp": "dp", "tp": "tp", "sp": "tp", "pp": "pp", "ep": "dp"}
_FILLED = ("tp", "pp", "dp")  # in this order, so that what talks most has most neighbours

_MOST = 2**63 - 1
"""Of any whole number: torch's own take no more."""

_LEAST = 4
"""Heads, layers and experts that a model has when nobody says how many."""


@dataclass(frozen=True, slots=True)
class TrainTyped:
    """The sizes that were typed; None: as fits the mesh and the backend. See ModelConfig and TrainConfig."""

    strategy: str
    dp: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    sequence_parallel: str | None = None
    per_node: int | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    ffn: int | None = None
    vocab: int | None = None
    sequence: int | None = None
    experts: int | None = None
    top_k: int | None = None
    capacity: float | None = None
    batch: int | None = None
    micro_batches: int | None = None
    steps: int = 20
    lr: float = 0.1
    seed: int = 1
    dtype: str | None = None
    data_parallel: str = "ddp"
    schedule: str = "1f1b"
    chunks: int | None = None
    bucket_bytes: int = 1 << 20
    overlap: bool = True
    library: bool = False
    routing: str = "learned"
    expert_backend: str = "collectives"
    text: bool = False


def ranks_typed(typed: TrainTyped) -> int | None:
    """How many ranks the mesh that was typed has, where its own axis was; None: as many as there are."""
    _known(typed)
    named = [getattr(typed, axis) for axis in _FILLED]
    own = _OWN_AXIS.get(typed.strategy)
    whole = all(named) if own is None else getattr(typed, own)
    return prod(size or 1 for size in named) if whole else None


def setup_of(typed: TrainTyped, world_size: int, backend: str) -> Setup:
    """What was typed, on ``world_size`` ranks. Raises UsageError with the nearest valid choice."""
    _known(typed)
    mesh = mesh_of(typed, world_size)
    model = _model(typed, mesh)
    return check(Setup(model, mesh, _train(typed, mesh, backend)))


def _known(typed: TrainTyped) -> None:
    if typed.strategy not in STRATEGIES:
        raise unknown("strategy", typed.strategy, STRATEGIES)
    if typed.routing not in ROUTINGS:
        raise unknown("--workload", typed.routing, ROUTINGS)
    if typed.expert_backend not in EXPERT_BACKENDS:
        raise unknown("--expert-backend", typed.expert_backend, EXPERT_BACKENDS)
    if typed.dtype is not None and typed.dtype not in DTYPES:
        raise unknown("--dtype", typed.dtype, DTYPES)
    for field in fields(typed):
        value = getattr(typed, field.name)
        least = 0 if field.name in ("seed", "experts") else 1
        if type(value) is int and value < least:
            raise UsageError(f"{value}", where=option(field.name), expected=f"at least {least}")
        if type(value) is int and value > _MOST:
            raise UsageError(f"{value}", where=option(field.name), expected=f"at most {_MOST}")
        if isinstance(value, float) and not (isfinite(value) and value > 0):
            raise UsageError(
                f"{value:g}", where=option(field.name), expected="a finite number above 0"
            )


def option(field: str) -> str:
    """What ``field`` of TrainTyped is called on the command line."""
    named = {"routing": "workload", "bucket_bytes": "bucket"}
    return "--" + named.get(field, field).replace("_", "-")


def mesh_of(typed: TrainTyped, world_size: int) -> MeshConfig:
    """How ``world_size`` ranks are laid out. What was typed is kept; the strategy's own axis takes the
    rest, then data parallelism; ``3d`` spreads it over tp, pp and dp.
    """
    sizes = {axis: getattr(typed, axis) for axis in _FILLED}
    named = prod(size for size in sizes.values() if size)
    own = _OWN_AXIS.get(typed.strategy)
    free = [axis for axis in (_FILLED if own is None else (own, "dp")) if sizes[axis] is None]
    if world_size % named or (world_size != named and not free):
        below = max(1, world_size // named) * named if free else named
        near = {below, below + named} if free else {named}
        raise UsageError(
            f"{world_size} ranks for a mesh of {_words(sizes)}",
            where="mesh",
            expected=f"{'a multiple of ' if free else ''}{named} ranks",
            fix=f"-g {' or '.join(map(str, sorted(near)))}",
        )
    sizes |= _spread(world_size // named, free if own is None else free[:1])
    found = {axis: size or 1 for axis, size in sizes.items()}
    sequence = typed.sequence_parallel or ("tp" if typed.strategy == "sp" else None)
    ep = typed.ep or (found["dp"] if typed.strategy == "ep" else 1)
    return MeshConfig(**found, ep=ep, sequence=sequence, per_node=typed.per_node)


def _words(sizes: dict[str, int | None]) -> str:
    return " × ".join(f"{axis} {size}" for axis, size in sizes.items() if size)


def _spread(rest: int, axes: list[str]) -> dict[str, int]:
    """``rest`` as a product over ``axes``, the factors as near each other as its primes allow."""
    sizes = dict.fromkeys(axes, 1)
    for prime in sorted(_primes(rest), reverse=True) if axes else []:
        sizes[min(axes, key=lambda axis: sizes[axis])] *= prime
    return sizes


def _primes(number: int) -> list[int]:
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found


def _up(value: int, divisor: int) -> int:
    """``value``, or the next multiple of ``divisor``."""
    return -(-value // divisor) * divisor


def _chunks(typed: TrainTyped) -> int:
    return typed.chunks or (2 if typed.schedule == "interleaved" else 1)


def _model(typed: TrainTyped, mesh: MeshConfig) -> ModelConfig:
    plain = ModelConfig()
    heads = typed.heads or _up(_LEAST, mesh.tp)
    hidden = typed.hidden or 16 * heads
    routed = typed.strategy == "ep" or mesh.ep > 1
    experts = _up(_LEAST, mesh.ep) if routed else 0
    return ModelConfig(
        layers=typed.layers or _up(_LEAST, mesh.pp * _chunks(typed)),
        hidden=hidden,
        heads=heads,
        ffn=typed.ffn or 4 * hidden,
        vocab=typed.vocab or plain.vocab,
        sequence=typed.sequence or _up(plain.sequence, mesh.tp),
        experts=experts if typed.experts is None else typed.experts,
        top_k=typed.top_k or plain.top_k,
        capacity=typed.capacity,
        fp8=typed.dtype == "fp8",
    )


def _dtype(typed: TrainTyped, backend: str) -> str:
    if typed.dtype is None:
        return "bfloat16" if backend == "nccl" else "float32"
    return "bfloat16" if typed.dtype == "fp8" else typed.dtype


def _train(typed: TrainTyped, mesh: MeshConfig, backend: str) -> TrainConfig:
    micro = typed.micro_batches or (2 * mesh.pp if mesh.pp > 1 else 1)
    return TrainConfig(
        batch=typed.batch or _up(8, mesh.dp * micro),
        micro_batches=micro,
        steps=typed.steps,
        lr=typed.lr,
        seed=typed.seed,
        dtype=_dtype(typed, backend),
        data_parallel=typed.data_parallel,
        schedule=typed.schedule,
        chunks=_chunks(typed),
        bucket_bytes=typed.bucket_bytes,
        overlap=typed.overlap,
        library=typed.library,
        routing=typed.routing,
        expert_backend=typed.expert_backend,
        text=typed.text,
    )
