"""Every shipped design with GPUs is predicted for NCCL or RCCL: all collectives, few ranks and many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.case import case_of
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.runs.whatif import PredictOptions, predict_sweep
from clusterlab.topology.design.load import list_designs, outline
from clusterlab.topology.parts import PRETENDED
from clusterlab.topology.place import place_on

MOST = 1024


def gpus_per_host(design: str) -> int:
    found = [d for d in outline(design).host_devices if d.kind == "gpu"]
    return 0 if any(d.model == PRETENDED for d in found) else len(found)


WITH_GPUS = [name for name in list_designs() if gpus_per_host(name)]


def asked(design: str, ranks: int | None, **changes: str) -> PredictOptions:
    return PredictOptions(
        fabric=design, collective_text="all", ranks=ranks, begin="1K", end="1G", factor=1024.0,
        step=None, dtype_text="float", op_text="sum", backend=changes.get("backend", "auto"),
    )  # fmt: skip


@pytest.mark.parametrize("design", WITH_GPUS)
def test_all_collectives_at_two_ranks_one_node_and_all(design: str) -> None:
    node = gpus_per_host(design)
    whole = node * len(outline(design).hosts)
    found = predict_sweep(asked(design, min(2, whole)))
    first = found[0].request
    assert first.backend == "nccl"
    check([one.request for one in found], [one.prediction for one in found])
    for ranks in {node, min(whole, MOST)}:
        groups = one_group(place_on(first.fabric, ranks))
        requests = [
            replace(first, groups=groups, collective=name, size_bytes=size)
            for name in COLLECTIVES
            for size in (1 << 10, 1 << 30)
        ]
        check(requests, [predict(request) for request in requests])


def check(requests: Sequence[PredictRequest], predictions: Sequence[Prediction]) -> None:
    assert {r.collective for r in requests} == set(COLLECTIVES)
    for request, p in zip(requests, predictions, strict=True):
        assert case_of(request).comm.library in ("nccl", "rccl")
        assert p.bound.time_us <= p.time_us < math.inf
        assert p.time_us > 0 or len(request.groups[0]) == 1  # a rank alone sends nothing


@pytest.mark.parametrize("design", ["alibaba-hpn", "hgx-h100", "mi300x", "superpod-gb200"])
def test_gloo_on_gpus_that_nobody_measured_is_refused(design: str) -> None:
    with pytest.raises(UsageError, match=f"--backend: gloo on {design}: .* nobody measured"):
        predict_sweep(asked(design, 2, backend="gloo"))


def test_a_lab_is_still_predicted_for_gloo_by_its_slow_links() -> None:
    assert gpus_per_host("lab-2x4") == 0
    found = predict_sweep(asked("lab-2x4", None))
    assert {one.request.backend for one in found} == {"gloo"}
    assert all(one.prediction.time_us > 0 for one in found)


def test_a_model_that_nobody_says_is_told() -> None:
    (one, *_) = predict_sweep(asked("alibaba-hpn", 2))
    assert any("model is not said" in note for note in one.prediction.notes)
    (one, *_) = predict_sweep(asked("hgx-h100", 2))
    assert not any("model is not said" in note for note in one.prediction.notes)
