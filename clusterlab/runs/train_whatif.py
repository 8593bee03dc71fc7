"""A training step that is only predicted: on any fabric, by rates of a GPU that somebody measured."""

from __future__ import annotations

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.routing import named_routing, routing_of
from clusterlab.cost.types import PredictRequest
from clusterlab.runs.typed import backend_of, check_backend, checked_variables, refuse_unmeasured
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.parts import PRETENDED
from clusterlab.topology.place import place_on
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
) -> StepPrediction:
    """A step of ``setup`` (checked) with a rank on each of the first GPUs of ``fabric``, host after host.

    Raises UsageError where the ranks do not fit or the fabric has no figure for what they send.
    """
    check_backend(backend)
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
    )
    return predict_step(setup, Site(template, place_on(fabric, setup.mesh.world_size)), compute)


def compute_of(text: str | None, fabric: Fabric, setup: Setup) -> Compute:
    """What was typed: None (the fabric's own GPU), a GPU's model, ``TFLOP/s,GB/s``, or ``probe`` (the device
    here, which takes some seconds). Raises UsageError where nothing is known of the GPU.
    """
    element = setup.train.dtype
    if text == PROBE:
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


def probed(setup: Setup) -> Compute:
    """Of this machine's GPU, or of its cores."""
    import torch

    from clusterlab.trainers.roofline import probe

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = setup.rows * setup.model.sequence
    return probe(device, setup.train.dtype, rows=rows, sequence=setup.model.sequence)


def fabric_named(name: str) -> Fabric:
    """A design or file. This host's cores have no figure for several ranks of one training step."""
    if name == "host":
        raise unknown("fabric", name, ("hgx-h100", "h200-2"), where="--what-if")
    return open_fabric(name)
