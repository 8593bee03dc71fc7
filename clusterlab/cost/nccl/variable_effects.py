"""What each variable of a prediction changes: the same prediction without it beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.variables import is_nccl_variable
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest


@dataclass(frozen=True, slots=True)
class VariableEffect:
    """``time_us`` by ``how`` with the variable; ``time_us_without`` and ``how_without`` are None where
    NCCL would stop without it. ``counted``: the prediction knows of it. ``note`` is what the prediction
    says of it, or is empty.
    """

    name: str
    text: str
    meaning: str
    counted: bool
    time_us: float
    how: str
    time_us_without: float | None
    how_without: str | None
    note: str = ""


def variable_effects(request: PredictRequest, found: Prediction) -> tuple[VariableEffect, ...]:
    """Of every variable that ``request`` sets, each taken away by itself from ``found``."""
    return tuple(
        _effect(request, found, name, text.strip())
        for name, text in sorted(request.overrides.items())
        if text.strip() and is_nccl_variable(name)
    )


def _effect(request: PredictRequest, found: Prediction, name: str, text: str) -> VariableEffect:
    notes = [n for n in found.notes if n.startswith((f"{name}=", f"{name} is set"))]
    rest = {k: v for k, v in request.overrides.items() if k != name}
    try:
        without = predict(replace(request, overrides=rest))
    except UsageError:
        without = None
    return VariableEffect(
        name=name,
        text=text,
        meaning=_MEANINGS.get(name, ""),
        counted=not any(note.startswith(f"{name} is set;") for note in notes),
        time_us=found.time_us,
        how=_how(found),
        time_us_without=None if without is None else without.time_us,
        how_without=None if without is None else _how(without),
        note=next(iter(notes), ""),
    )


def _how(prediction: Prediction) -> str:
    return "/".join(word for word in (prediction.algorithm, prediction.protocol) if word)


_MEANINGS: Mapping[str, str] = {
    "NCCL_ALGO": "the algorithms that NCCL may take",
    "NCCL_PROTO": "the protocols that NCCL may take",
    "NCCL_NVLS_ENABLE": "reduction and multicast in the NVSwitches",
    "NCCL_COLLNET_ENABLE": "reduction in the network",
    "NCCL_PAT_ENABLE": "PAT for more than one GPU a node",
    "NCCL_LL128_C2C": "LL128 over C2C and PXN",
    "NCCL_MIN_NRINGS": "the fewest channels of ring and tree",
    "NCCL_MAX_NRINGS": "the most channels of ring and tree",
    "NCCL_MIN_NCHANNELS": "the fewest channels of ring and tree",
    "NCCL_MAX_NCHANNELS": "the most channels of ring and tree",
    "NCCL_MIN_CTAS": "the fewest channels of everything",
    "NCCL_MAX_CTAS": "the most channels of everything",
    "NCCL_NVLS_NCHANNELS": "channels of NVLS",
    "NCCL_MIN_P2P_NCHANNELS": "the fewest channels of messages",
    "NCCL_MAX_P2P_NCHANNELS": "the most channels of messages",
    "NCCL_NCHANNELS_PER_NET_PEER": "channels of messages to one peer over the network",
    "NCCL_NTHREADS": "threads of a channel",
    "NCCL_LL128_NTHREADS": "threads of a channel with LL128",
    "NCCL_THREAD_THRESHOLDS": "bytes a thread below which channels are left out",
    "NCCL_NET_OVERHEAD": "what NCCL counts for handing a step to the network",
    "NCCL_P2P_DISABLE": "whether GPUs reach each other's memory",
    "NCCL_P2P_LEVEL": "the farthest GPUs that reach each other's memory",
    "NCCL_SHM_DISABLE": "whether GPUs without peer access meet in host memory",
    "NCCL_IB_DISABLE": "whether NCCL speaks InfiniBand and RoCE, or TCP",
    "NCCL_IB_HCA": "the NICs that NCCL may use",
    "NCCL_NET": "the network that NCCL speaks",
    "NCCL_NET_GDR_LEVEL": "the farthest NICs that reach GPU memory",
    "NCCL_NET_GDR_C2C": "whether NICs reach GPU memory over C2C",
    "NCCL_CROSS_NIC": "whether a channel may come back by another NIC",
    "NCCL_PXN_DISABLE": "whether GPUs send through the NIC of a peer",
    "NCCL_MNNVL_ENABLE": "whether hosts that NVLink joins are one node",
}
"""Of the variables that are modelled, in a few words."""
