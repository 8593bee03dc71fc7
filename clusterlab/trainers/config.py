"""What is trained, on how many ranks, and how: the choices of one training run.

Shape letters, here and in all of trainers: B sequences, S positions, H hidden width, A heads, D width of a
head, F inner width of the MLP, V vocabulary, E experts, K experts of a token, T tokens, M micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder-only transformer. ``experts`` 0: a dense MLP in every block, else a mixture of that many.

    ``capacity`` is how many times its even share an expert takes of each sequence before it drops some; None:
    all. ``fp8``: the MLP's products are in 8 bits (eight_bits.py), all else in the run's dtype.
    """

    layers: int = 4
    hidden: int = 64
    heads: int = 4
    ffn: int = 256
    vocab: int = 128
    sequence: int = 32
    experts: int = 0
    top_k: int = 2
    capacity: float | None = None
    fp8: bool = False

    @property
    def head_width(self) -> int:
        """D."""
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True)
class MeshConfig:
    """How many ranks along each axis. ``ep`` ranks that share experts are part of the ``dp`` ones.

    ``sequence`` says how positions are split among the ``tp`` ranks outside of attention and MLP: None, not;
    ``tp``, beside tensor parallelism; ``ulysses``, instead of it, with all-to-alls around attention.
    ``per_node`` ranks are a node: tokens go to experts across nodes first, then inside; None: directly.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    sequence: str | None = None
    per_node: int | None = None

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.dp * self.tp * self.pp


DATA_PARALLEL = ("ddp", "zero1", "zero2", "fsdp")
"""What data parallel ranks keep whole: everything; all but optimizer state; nor gradients; nothing."""

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble")
"""Orders in which a pipeline's stages run forwards and backwards."""

ROUTINGS = (
    "learned", "balanced", "hot_expert", "hot_rank", "ragged", "zero_load", "rotating", "bursty",
)  # fmt: skip
"""Who chooses a token's experts: the router, or a workload of plans/workloads.py."""

EXPERT_BACKENDS = ("collectives", "deep_ep")
"""What takes tokens to experts: torch's collectives, or the library DeepEP where it is installed."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How it is trained. ``batch`` sequences make a step, over all ranks, in ``micro_batches`` parts of each
    data parallel rank. ``library``: by torch's own parallel parts where it has them, else explicitly.

    ``chunks`` are the stages of a rank in an interleaved pipeline. ``bucket_bytes`` of gradients go together.
    ``routing`` other than learned forces choices of experts; their weights stay the router's. ``text``: learn
    from the text that comes along instead of made-up tokens.
    """

    batch: int = 8
    micro_batches: int = 1
    steps: int = 5
    lr: float = 0.1
    seed: int = 1
    dtype: str = "float32"
    data_parallel: str = "ddp"
    schedule: str = "1f1b"
    chunks: int = 1
    bucket_bytes: int = 1 << 20
    overlap: bool = True
    library: bool = False
    routing: str = "learned"
    expert_backend: str = "collectives"
    text: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """One training run: what, where, how."""

    model: ModelConfig
    mesh: MeshConfig
    train: TrainConfig

    @property
    def rows(self) -> int:
        """B: sequences of one micro-batch on one rank."""
        return self.train.batch // (self.mesh.dp * self.train.micro_batches)

    @property
    def stages(self) -> int:
        """Stages of the pipeline, over all ranks."""
        return self.mesh.pp * self.train.chunks


def check(setup: Setup) -> Setup:
    """``setup``, when its sizes fit each other. Raises UsageError with the nearest valid choice."""
    model, mesh, train = setup.model, setup.mesh, setup.train
    for where, value in _counts(setup).items():
        if value < 1:
            raise UsageError(f"{value}", where=where, expected="at least 1")
    _known("data_parallel", train.data_parallel, DATA_PARALLEL)
    _known("schedule", train.schedule, SCHEDULES)
    if mesh.sequence is not None:
        _known("sequence", mesh.sequence, ("tp", "ulysses"))
    _divides("heads", model.heads, "hidden", model.hidden)
    _divides("dp × micro_batches", mesh.dp * train.micro_batches, "batch", train.batch)
    _divides("stages (pp × chunks)", setup.stages, "layers", model.layers)
    _divides("tp", mesh.tp, "heads", model.heads)
    if mesh.sequence != "ulysses":
        _divides("tp", mesh.tp, "ffn", model.ffn)
    if mesh.sequence is not None:
        _divides("tp", mesh.tp, "sequence", model.sequence)
    _check_experts(setup)
    _check_eight_bits(setup)
    if train.chunks > 1 and train.schedule != "interleaved":
        raise UsageError(
            f"{train.chunks} with schedule {train.schedule}", where="chunks", expected="1",
            fix="--schedule interleaved",
        )  # fmt: skip
    _check_pipelined_shares(setup)
    if mesh.pp > 1 and train.micro_batches < mesh.pp:
        raise UsageError(
            f"{train.micro_batches} micro-batches for {mesh.pp} stages", where="micro_batches",
            expected="one or more for each stage", fix=f"--micro-batches {mesh.pp}",
        )  # fmt: skip
    return setup


def _check_pipelined_shares(setup: Setup) -> None:
    """Zero stage 2 and fsdp share out gradients in each micro-batch's backward, all of a rank's at once."""
    mesh, train = setup.mesh, setup.train
    kind = train.data_parallel
    if mesh.pp == 1 or mesh.dp == 1 or kind not in ("zero2", "fsdp"):
        return
    if train.schedule == "zero_bubble" or (kind == "zero2" and train.chunks > 1):
        raise UsageError(
            f"{kind} in a pipeline with schedule {train.schedule}", where="data_parallel",
            expected="ddp or zero1", fix="--data-parallel zero1, or --schedule 1f1b",
        )  # fmt: skip


def _check_experts(setup: Setup) -> None:
    model, mesh, train = setup.model, setup.mesh, setup.train
    _divides("ep", mesh.ep, "dp", mesh.dp)
    _known("routing", train.routing, ROUTINGS)
    _known("expert_backend", train.expert_backend, EXPERT_BACKENDS)
    if train.expert_backend == "deep_ep" and (mesh.ep == 1 or mesh.per_node is not None):
        raise UsageError(
            f"deep_ep with ep {mesh.ep}, per_node {mesh.per_node}", where="expert_backend",
            expected="ep 2 or more, and no per_node: it finds nodes itself",
        )  # fmt: skip
    if mesh.per_node is not None:
        _even_nodes(mesh.per_node, mesh.ep, mesh.tp)
    if mesh.ep > 1 and not model.experts:
        raise UsageError("ep without experts", where="experts", expected=f"{mesh.ep} or a multiple")
    if model.experts:
        if model.experts < mesh.ep:
            raise UsageError(
                f"{model.experts} experts on ep {mesh.ep} ranks", where="experts",
                expected="an expert or more for each rank", fix=f"--experts {mesh.ep}",
            )  # fmt: skip
        _divides("ep", mesh.ep, "experts", model.experts)
        if model.top_k > model.experts:
            raise UsageError(f"{model.top_k}", where="top_k", expected=f"at most {model.experts}")
    if train.routing != "learned":
        if not model.experts:
            raise UsageError(
                f"{train.routing} without experts", where="routing", expected="learned"
            )
        from clusterlab.trainers.plans.workloads import choices

        choices(setup, 0, 0)


def _check_eight_bits(setup: Setup) -> None:
    model, mesh, train = setup.model, setup.mesh, setup.train
    if not model.fp8:
        return
    if train.dtype != "bfloat16":
        raise UsageError(f"fp8 beside {train.dtype}", where="dtype", expected="bfloat16")
    if model.experts:
        raise UsageError(
            "fp8 with experts", where="dtype", expected="bfloat16: only a dense MLP has it"
        )
    if train.library and mesh.tp > 1:
        raise UsageError(
            "fp8 with DTensor", where="library", expected="the explicit tensor parallelism"
        )
    cut = 1 if mesh.sequence == "ulysses" else mesh.tp
    split = mesh.tp if mesh.sequence == "ulysses" else 1
    for name, value, least in (
        ("hidden", model.hidden, 16),
        ("ffn", model.ffn, 16 * cut),
        ("batch × sequence of a micro-batch", setup.rows * model.sequence, 16 * split),
    ):
        _divides(
            "16 of fp8's products" + (f" × tp {cut}" if least > 16 else ""), least, name, value
        )


def _even_nodes(per_node: int, ep: int, tp: int) -> None:
    """Raise UsageError unless the ``ep`` ranks that share experts, ``tp`` apart, fill nodes evenly."""
    span = ep * tp

    def even(size: int) -> bool:
        return size % span == 0 or (span % size == 0 and (size % tp == 0 or tp % size == 0))

    if not even(per_node):
        valid = [size for size in range(1, span + 1) if even(size)]
        near = min(valid, key=lambda size: abs(size - per_node))
        raise UsageError(
            f"{per_node} ranks of a node share out ep {ep} × tp {tp} unevenly", where="per_node",
            expected=f"one of {', '.join(map(str, valid))}, or a multiple of {span}",
            fix=f"per_node {near}",
        )  # fmt: skip


def _counts(setup: Setup) -> dict[str, int]:
    model, mesh, train = setup.model, setup.mesh, setup.train
    return {
        **{n: getattr(model, n) for n in ("layers", "hidden", "heads", "ffn", "vocab", "sequence")},
        "top_k": model.top_k,
        **{n: getattr(mesh, n) for n in ("dp", "tp", "pp", "ep")},
        **{n: getattr(train, n) for n in ("batch", "micro_batches", "steps", "chunks")},
        "bucket_bytes": train.bucket_bytes,
        **({} if mesh.per_node is None else {"per_node": mesh.per_node}),
    }


def _known(where: str, word: str, words: tuple[str, ...]) -> None:
    from clusterlab.core.suggest import unknown

    if word not in words:
        raise unknown(where, word, words)


def _divides(divisor_name: str, divisor: int, name: str, value: int) -> None:
    """Raise UsageError unless ``divisor`` divides ``value``; say which values near it would do."""
    if value % divisor == 0:
        return
    below = value // divisor * divisor
    near = [str(v) for v in (below, below + divisor) if v > 0]
    raise UsageError(
        f"{name} {value} is no multiple of {divisor_name} {divisor}",
        where=name,
        expected=f"a multiple of {divisor}",
        fix=f"{name} {' or '.join(near)}",
    )
