"""Expert parallelism on real ranks, flat and on two levels, against one unsharded process."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clusterlab.core.errors import UsageError
from clusterlab.trainers import moe
from clusterlab.trainers.axis import Axis, Pending
from clusterlab.trainers.config import Setup, check
from clusterlab.trainers.model import Experts
from clusterlab.trainers.plans import ep
from clusterlab.trainers.plans.plan import CallKey, counted
from clusterlab.trainers.plans.routed import Routed
from clusterlab.trainers.plans.workloads import WORKLOADS
from clusterlab.trainers.strategies import ep as strategy
from clusterlab.trainers.strategies.ep import ExpertWays
from clusterlab.trainers.strategies.library import deep_ep
from tests.trainers import deep_ep_fake
from tests.trainers.ranks import Ranks, assert_equal_to_reference, small, train

pytestmark = pytest.mark.ranks


def mixed(*, split: str | None = None, **changes: Any) -> Setup:
    """A small setup with 8 experts, positions split as ``split`` says."""
    setup = small(**{"experts": 8, "layers": 2, **changes})
    return check(replace(setup, mesh=replace(setup.mesh, sequence=split)))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[list[list[Routed]]]]:
    """What ranks that are trained afterwards have sent, by step and rank."""
    finish = ExpertWays.finish

    def keep(ways: ExpertWays, parameters: Mapping[str, nn.Parameter]) -> None:
        finish(ways, parameters)
        with (tmp_path / f"sent-{torch.distributed.get_rank():02}").open("ab") as file:
            pickle.dump(ways.routed, file)

    monkeypatch.setattr(ExpertWays, "finish", keep)

    def read() -> list[list[list[Routed]]]:
        by_rank = []
        for path in sorted(tmp_path.glob("sent-*")):
            with path.open("rb") as file:
                steps = []
                while file.peek(1):
                    steps.append(pickle.load(file))
            by_rank.append(steps)
        return [list(ranks) for ranks in zip(*by_rank, strict=True)]

    return read


def of_experts(calls: Counter[CallKey]) -> Counter[CallKey]:
    """Those that plans/ep.py plans: along the groups of experts, and counts of choices."""
    return Counter(
        {key: n for key, n in calls.items() if key[1].startswith("ep") or key[4] == "int64"}
    )


def assert_sent_as_planned(ranks: Ranks, sent: list[list[list[Routed]]]) -> None:
    """Each step's ledger is the plan with the rows that ranks counted."""
    setup = ranks.setup
    assert len(sent) == setup.train.steps
    for step, routed in enumerate(sent):
        for rank in range(setup.mesh.world_size):
            planned = counted(ep.calls(setup, rank, routed=dict(enumerate(routed))))
            assert of_experts(ranks.calls(rank, step)) == planned, f"rank {rank}, step {step}"
            mixtures = setup.model.layers // setup.mesh.pp * setup.train.micro_batches
            assert len({(one.layer, one.micro_batch) for one in routed[rank]}) == mixtures


MESHES: dict[str, dict[str, Any]] = {
    "ep 2": {"dp": 2, "ep": 2},
    "ep 2, dp 4": {"dp": 4, "ep": 2, "micro_batches": 2},
    "ep 4": {"dp": 4, "ep": 4, "micro_batches": 2},
    "ep 4, dp 8": {"dp": 8, "ep": 4},
    "ep 8": {"dp": 8, "ep": 8},
    "two nodes of 2": {"dp": 4, "ep": 4, "per_node": 2, "micro_batches": 2},
    "two nodes of 2, dp 8": {"dp": 8, "ep": 4, "per_node": 2},
    "two nodes of 4": {"dp": 8, "ep": 8, "per_node": 4},
    "four nodes of 2": {"dp": 8, "ep": 8, "per_node": 2, "top_k": 3},
    "four nodes of 1": {"dp": 4, "ep": 4, "per_node": 1},
    "zero 2": {"dp": 4, "ep": 2, "data_parallel": "zero2"},
    "fsdp": {"dp": 4, "ep": 2, "per_node": 1, "data_parallel": "fsdp"},
    "pp": {"dp": 2, "ep": 2, "pp": 2, "micro_batches": 2, "schedule": "1f1b"},
    "zero bubble": {"dp": 2, "ep": 2, "pp": 2, "micro_batches": 2, "schedule": "zero_bubble"},
    "pp, sp": {"dp": 2, "ep": 2, "pp": 2, "tp": 2, "micro_batches": 2, "split": "tp"},
    "tp": {"dp": 2, "ep": 2, "tp": 2, "per_node": 2},
    "sp": {"dp": 2, "ep": 2, "tp": 2, "split": "tp"},
    "ulysses": {"dp": 2, "ep": 2, "tp": 2, "split": "ulysses", "per_node": 2},
    "sp of experts on one rank": {"tp": 2, "split": "tp"},
}


CASES = [(mesh, capacity) for mesh in MESHES for capacity in (None, 0.75)]


@pytest.mark.parametrize(
    ("mesh", "capacity"),
    # What is combined with other parallelism, with the harder of both only.
    [(mesh, c) for mesh, c in CASES if c is not None or mesh.startswith(("ep", "two", "four"))],
)
def test_equals_the_reference_and_sends_what_is_planned(
    mesh: str, capacity: float | None, tmp_path: Path, sent: Callable[[], Any]
) -> None:
    ranks = train(mixed(capacity=capacity, **MESHES[mesh]), tmp_path)
    assert_equal_to_reference(ranks)
    assert_sent_as_planned(ranks, sent())
    dropped = sum(one.dropped for step in sent() for routed in step for one in routed)
    assert (dropped > 0) == (capacity is not None)


@pytest.mark.parametrize("per_node", [None, 2])
@pytest.mark.parametrize("routing", WORKLOADS)
def test_forced_routings_equal_the_reference_and_are_known_beforehand(
    routing: str, per_node: int | None, tmp_path: Path, sent: Callable[[], Any]
) -> None:
    setup = mixed(dp=4, ep=4, routing=routing, per_node=per_node, capacity=1.5, steps=4)
    ranks = train(setup, tmp_path)
    assert_equal_to_reference(ranks)
    assert_sent_as_planned(ranks, sent())
    for step in range(setup.train.steps):
        for rank in range(4):
            planned = counted(ep.calls(setup, rank, step))
            assert of_experts(ranks.calls(rank, step)) == planned, f"rank {rank}, step {step}"


def test_positions_of_a_forced_routing_are_each_ranks_own(
    tmp_path: Path, sent: Callable[[], Any]
) -> None:
    setup = mixed(dp=2, ep=2, tp=2, split="tp", routing="ragged", capacity=0.75, steps=2)
    ranks = train(setup, tmp_path)
    assert_equal_to_reference(ranks)
    for step in range(2):
        for rank in range(4):
            planned = counted(ep.calls(setup, rank, step))
            assert of_experts(ranks.calls(rank, step)) == planned
    assert_sent_as_planned(ranks, sent())


@pytest.mark.parametrize("routing", ["learned", "hot_rank", "ragged"])
def test_a_library_equals_the_reference_and_sends_a_token_once_to_a_rank(
    routing: str, tmp_path: Path, sent: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stand-in for DeepEP, with weights in float32 as there."""
    monkeypatch.setattr(deep_ep, "imported", lambda _setup: deep_ep_fake)
    setup = mixed(dp=4, ep=4, routing=routing, capacity=1.25, expert_backend="deep_ep")
    ranks = train(setup, tmp_path)
    assert_equal_to_reference(ranks, 1e-5)
    assert_sent_as_planned(ranks, sent())
    if routing != "learned":
        planned = counted(ep.calls(setup, 1, 4))
        assert of_experts(ranks.calls(1, 4)) == planned


def test_a_library_that_is_not_installed_is_refused() -> None:
    if importlib.util.find_spec("deep_ep") is not None:
        pytest.skip("DeepEP is installed here")
    setup = mixed(dp=2, ep=2, expert_backend="deep_ep")
    with pytest.raises(UsageError, match=r"deep_ep cannot be imported.*or take expert_backend"):
        deep_ep.imported(setup)


def test_a_library_takes_bfloat16_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deep_ep", deep_ep_fake)
    with pytest.raises(UsageError, match="bfloat16"):
        deep_ep.imported(mixed(dp=2, ep=2, expert_backend="deep_ep"))
    ok = mixed(dp=2, ep=2, expert_backend="deep_ep", dtype="bfloat16")
    assert deep_ep.imported(ok) is deep_ep_fake


# Mistakes: each must fail the comparison above.


def scaled(x_TH: torch.Tensor, counts: list[int], experts: Experts) -> torch.Tensor:
    """As if losses were means of a rank's tokens: experts' gradients ep (2) times too large."""

    class Twice(Experts):
        def __init__(self) -> None:
            nn.Module.__init__(self)

        def one(self, x_TH: torch.Tensor, expert: int) -> torch.Tensor:
            up, down = (2 * w[expert] - w[expert].detach() for w in (experts.up, experts.down))
            return nn.functional.gelu(x_TH @ up.T) @ down.T

    return RUN(x_TH, counts, Twice())


def not_summed(axis: Axis, tensor: torch.Tensor) -> Pending:
    """Copies of experts keep their own gradients."""
    return Pending(lambda: None) if axis.name == "edp" else START(axis, tensor)


def not_sent_back(_ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
    """No gradient returns from other ranks' experts."""
    return grad.new_zeros(sum(_ctx.sends), *grad.shape[1:]), None, None, None


def of_the_whole_batch(x_TH: torch.Tensor, block: Any, **changes: Any) -> moe.Routing:
    """Capacity is counted over all sequences of a rank's micro-batch."""
    return ROUTE(x_TH, block, **{**changes, "positions": x_TH.shape[0]})


def unsorted(x_TH: torch.Tensor, counts: list[int], experts: Experts) -> torch.Tensor:
    """Each expert takes the rows of the next."""
    return RUN(x_TH.roll(1, 0), counts, experts)


START, ROUTE, RUN = Axis.start_all_reduce, moe.route, moe.run_experts

MISTAKES: dict[str, tuple[Any, str, Any, str]] = {
    "expert gradients ep times too large": (strategy, "run_experts", scaled, "gradient .*experts"),
    "copies of experts not summed": (Axis, "start_all_reduce", not_summed, "gradient .*experts"),
    "gradients not sent back": (
        strategy._Swap, "backward", staticmethod(not_sent_back), "gradient embed",
    ),
    "capacity of another group of tokens": (strategy, "route", of_the_whole_batch, "loss of step 0"),
    "rows at the wrong experts": (strategy, "run_experts", unsorted, "loss of step 0"),
}  # fmt: skip
"""What is broken, and where the comparison first sees it: not in the loss, where only gradients are wrong."""


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("per_node", [None, 1])
def test_a_mistake_is_seen(
    mistake: str, per_node: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, broken, seen = MISTAKES[mistake]
    monkeypatch.setattr(where, name, broken)
    setup = mixed(dp=4, ep=2, capacity=0.75, per_node=per_node, steps=1)
    with pytest.raises(AssertionError, match=seen):
        assert_equal_to_reference(train(setup, tmp_path))
