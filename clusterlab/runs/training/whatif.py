"""A training step that is only predicted: on any fabric, by rates of a GPU that somebody measured."""

from __future__ import annotations

from math import prod

from clusterlab.core.errors import UsageError
from clusterlab.cost.calibration import Calibration
from clusterlab.cost.routing import named_routing, routing_of
from clusterlab.cost.types import PredictRequest
from clusterlab.runs.sweeping.predicting import THIS_HOST
from clusterlab.runs.training.setup import TrainTyped, ranks_typed, setup_of
from clusterlab.runs.typed import backend_of, check_backend, checked_variables, refuse_unmeasured
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.parts import PRETENDED
from clusterlab.topology.place import place_on
from clusterlab.trainers.collectives import CollectiveKey
from clusterlab.trainers.config import Setup
from clusterlab.trainers.plans.compute import Compute, named_compute, named_gpus, typed_compute
from clusterlab.trainers.plans.price import Site
from clusterlab.trainers.plans.step_time import StepPrediction, predict_step

PROBE = "probe"


def what_if(
    setup: Setup,
    fabric: Fabric,
    compute: Compute,
    *,
    backend: str = "auto",
    routing: str | None = None,
    variables: tuple[str, ...] = (),
    calibration: Calibration | None = None,
) -> StepPrediction:
    """A step of ``setup`` (checked) with a rank on each of the first GPUs of ``fabric``, host after host; on
    the cores of a host without GPUs, of which ``calibration`` knows what gloo takes.

    Raises UsageError where the ranks do not fit or the fabric has no figure for what they send.
    """
    check_backend(backend)
    if setup.model.fp8:
        raise UsageError(
            "nothing is known of products in 8 bits", where="--dtype fp8 of a step that is predicted",
            expected="bfloat16",
        )  # fmt: skip
    if routing is not None:
        named_routing(routing)
    chosen = backend_of(backend, fabric)
    if chosen != "nccl":
        refuse_unmeasured(fabric)
    template = PredictRequest(
        fabric=fabric,
        groups=(),
        collective="all_reduce",
        size_bytes=1,
        backend=chosen,
        issue="eager",
        overrides=checked_variables(variables),
        routing=routing_of(fabric, chosen, routing),
        calibration=calibration,
    )
    return predict_step(setup, Site(template, place_on(fabric, setup.mesh.world_size)), compute)


def compute_of(text: str | None, fabric: Fabric, setup: Setup) -> Compute:
    """What was typed: None (the fabric's own GPU), a GPU's model, ``TFLOP/s,GB/s``, or ``probe`` (the device
    here, which takes some seconds). Raises UsageError where nothing is known of the GPU.
    """
    element = setup.train.dtype
    if is_probe(text, fabric):
        return probed(setup)
    if text is not None and "," in text:
        return typed_compute(text)
    if text is not None:
        return named_compute(text, element)
    models = [model for model in fabric.models("gpu") if model not in (None, PRETENDED)]
    if len(models) != 1 or models[0] not in named_gpus():
        what = " and ".join(map(str, models)) or "no GPU that has a data sheet"
        raise UsageError(
            f"the fabric has {what}", where=f"how fast ranks compute on {fabric.name}",
            expected="--compute MODEL, TFLOP/s,GB/s or probe", fix="--compute probe",
        )  # fmt: skip
    return named_compute(str(models[0]), element)


def is_probe(text: str | None, fabric: Fabric) -> bool:
    """Whether the device at hand is to be measured: this host's cores are unless something else is said."""
    return text == PROBE or (text is None and fabric.name == THIS_HOST)


def probed(setup: Setup) -> Compute:
    """Of this machine's GPU, or of its cores."""
    import torch

    from clusterlab.trainers.roofline import probe_of

    return probe_of(setup, "cuda" if torch.cuda.is_available() else "cpu")


def fabric_named(name: str) -> Fabric:
    """A design or file. Raises UsageError for this host."""
    if name == THIS_HOST:
        raise UsageError(
            "nothing is known of several ranks' computing on this host's cores", where="--what-if host",
            expected="a name of `topo list` or a file",
            fix="predict and measure it: `clusterlab train … --fabric host`",
        )  # fmt: skip
    return open_fabric(name)


def fabric_of_run(name: str, backend: str) -> Fabric:
    """That of a run that is predicted beside being measured: a design, a file, or this host's cores, which
    its ranks measure. Raises UsageError for this host where ranks talk by NCCL.
    """
    if name == THIS_HOST and backend != "gloo":
        raise UsageError(
            f"ranks talk by {backend}", where="--fabric host",
            expected="a design of the GPUs' links: see `clusterlab topo list`",
        )  # fmt: skip
    return open_fabric(name)


def setup_on(typed: TrainTyped, ranks: int | None, fabric: Fabric | None, backend: str) -> Setup:
    """What was typed for a step that is only looked at. Ranks: ``ranks``, the mesh's, or enough to see
    something. Raises UsageError.
    """
    check_backend(backend)
    if ranks is not None and ranks < 1:
        raise UsageError(f"{ranks}", where="--ranks", expected="at least 1")
    world_size = ranks or ranks_typed(typed) or _some(typed)
    chosen = backend_of(backend, fabric) if fabric is not None else backend
    return setup_of(typed, world_size, "gloo" if chosen == "gloo" else "nccl")


def _some(typed: TrainTyped) -> int:
    """A multiple of what was typed."""
    named = prod(size for size in (typed.dp, typed.tp, typed.pp) if size)
    least = 8 if typed.strategy == "3d" else 4
    return named * max(1, -(-least // named))


def call_times(found: StepPrediction) -> dict[CollectiveKey, float]:
    """What each kind of call of ``found`` takes alone, in µs, named as a ledger's summary does."""
    return {
        (c.op, c.axis, len(c.ranks), c.size_bytes, c.dtype, c.phase): one.each_us
        for one in found.priced
        for c in (one.call,)
    }
