"""Plans put together and priced: what must hold whatever is combined."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.cost.predict import predict
from clusterlab.cost.types import PredictRequest
from clusterlab.runs.training.setup import TrainTyped, setup_of
from clusterlab.runs.training.whatif import compute_of, what_if
from clusterlab.topology.design.load import fabric_from_yaml, load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.place import place_on
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import groups_of, place_of
from clusterlab.trainers.plans import dp, ep, pp, sp, tp
from clusterlab.trainers.plans.compose import calls_of, plan_of
from clusterlab.trainers.plans.compute import Compute, named_compute, typed_compute
from clusterlab.trainers.plans.memory import memory_of
from clusterlab.trainers.plans.overlap import exposed_us
from clusterlab.trainers.plans.plan import counted
from clusterlab.trainers.plans.work import Op, work_of

GPUS = 8
BIG = {"layers": 8, "hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 1024, "sequence": 512}
COMBINED = {
    "dp": TrainTyped("dp"),
    "zero1": TrainTyped("dp", data_parallel="zero1", micro_batches=2),
    "zero2": TrainTyped("dp", data_parallel="zero2", micro_batches=2),
    "fsdp": TrainTyped("dp", data_parallel="fsdp", micro_batches=2),
    "tp": TrainTyped("tp"),
    "sp": TrainTyped("sp"),
    "ulysses": TrainTyped("sp", sequence_parallel="ulysses"),
    "gpipe": TrainTyped("pp", schedule="gpipe"),
    "1f1b": TrainTyped("pp"),
    "interleaved": TrainTyped("pp", pp=4, dp=2, schedule="interleaved"),
    "zero_bubble": TrainTyped("pp", pp=4, dp=2, schedule="zero_bubble"),
    "ep": TrainTyped("ep"),
    "dp x tp": TrainTyped("tp", tp=4, dp=2),
    "dp x pp": TrainTyped("pp", pp=2, dp=4),
    "tp+sp x pp": TrainTyped("sp", tp=4, pp=2),
    "dp x ep": TrainTyped("ep", dp=8, ep=4),
    "ep on two levels": TrainTyped("ep", dp=8, ep=8, per_node=4),
    "3d": TrainTyped("3d"),
    "3d, fsdp": TrainTyped("3d", data_parallel="fsdp"),
}


def made(name: str) -> Setup:
    return setup_of(replace(COMBINED[name], **BIG), GPUS, "nccl")


@cache
def nvlink() -> Fabric:
    return load_fabric("hgx-h100")


H100 = named_compute("H100-SXM5-80GB", "bfloat16")


@pytest.mark.parametrize("name", COMBINED)
def test_a_plan_is_what_its_parts_plan_and_nothing_of_axes_of_one_rank(name: str) -> None:
    setup = made(name)
    for rank in range(GPUS):
        parts = [call for part in (dp, tp, sp, pp, ep) for call in part.calls(setup, rank)]
        assert counted(plan_of(setup, rank).calls) == counted(parts)
        assert all(rank in call.ranks and len(call.ranks) > 1 for call in parts)
        used = {"dp": setup.mesh.dp, "tp": setup.mesh.tp, "pp": setup.mesh.pp}
        assert {c.axis for c in parts} >= {axis for axis, size in used.items() if size > 1}


@pytest.mark.parametrize("name", COMBINED)
def test_what_is_sent_is_received_and_groups_call_alike(name: str) -> None:
    setup = made(name)
    plans = [calls_of(setup, rank) for rank in range(GPUS)]
    sent = sum(c.count * c.size_bytes for calls in plans for c in calls if c.op == "send")
    received = sum(c.count * c.size_bytes for calls in plans for c in calls if c.op == "recv")
    assert sent == received
    for rank, calls in enumerate(plans):
        own = counted(c for c in calls if c.op not in ("send", "recv", "all_to_all_v"))
        for key, count in own.items():
            for other in key[2]:
                assert counted(plans[other])[key] == count, f"rank {rank} and {other}: {key}"


@pytest.mark.parametrize("name", COMBINED)
def test_parts_of_a_step_add_up_and_no_step_beats_its_compute_or_its_bound(name: str) -> None:
    found = what_if(made(name), nvlink(), H100)
    parts = found.forward_us + found.backward_us + found.optimizer_us + found.bubble_us
    assert found.step_us == pytest.approx(parts + sum(found.exposed_us.values()), rel=1e-12)
    assert all(value >= 0 for value in found.exposed_us.values())
    assert found.bubble_us >= 0
    assert found.step_us >= found.compute_us > 0
    assert found.step_us >= found.bound_us * (1 - 1e-9)


@pytest.mark.parametrize("name", COMBINED)
def test_a_machine_without_overlap_is_never_faster(name: str) -> None:
    setup = made(name)
    alone = replace(setup, train=replace(setup.train, overlap=False))
    fast, slow = (what_if(one, nvlink(), H100) for one in (setup, alone))
    assert slow.step_us >= fast.step_us * (1 - 1e-9)


KNOWN = 'GBps_source: "a test"\n    GBps: 5'


@cache
def faster(factor: int) -> Fabric:
    """Two nodes of four pretended GPUs whose links carry ``factor`` times as much."""
    text = shipped("topologies/lab-2x4.yaml").read_text()

    def scaled(found: re.Match[str]) -> str:
        return f"{found[1]}{float(found[2]) * factor}"

    content, count = re.subn(r"(GBps: )([\d.]+)", scaled, text.replace("GBps: unknown", KNOWN))
    assert count == 4
    return fabric_from_yaml(content, file="lab.yaml", default_name=f"lab{factor}")


@pytest.mark.parametrize("name", COMBINED)
def test_twice_the_bandwidth_is_never_slower(name: str) -> None:
    compute = typed_compute("1,100")
    steps = [what_if(made(name), faster(factor), compute).step_us for factor in (1, 2, 4)]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.parametrize("name", ["dp", "tp", "sp", "ep"])
def test_twice_the_network_is_never_slower_for_nccl(name: str) -> None:
    """Twice only: with more NCCL may choose an algorithm that is worse, as it does."""
    text = shipped("topologies/dgx-h100-2node.yaml").read_text()
    assert "ib" in text
    steps = []
    for factor in (1, 2):
        content = re.sub(r"(GBps: )([\d.]+)", lambda m, f=factor: f"{m[1]}{float(m[2]) * f}", text)
        fabric = fabric_from_yaml(content, file="two.yaml", default_name="two")
        steps.append(what_if(setup_of(TrainTyped(name, **BIG), 16, "nccl"), fabric, H100).step_us)
    assert steps[1] <= steps[0]


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_sequence_parallelism_sends_the_bytes_of_tensor_parallelism(tensor: int) -> None:
    """An all_reduce of S bytes moves what a reduce_scatter and an all_gather of S bytes do."""
    plain, split = (
        setup_of(TrainTyped(name, tp=tensor, **BIG), tensor, "nccl") for name in ("tp", "sp")
    )

    def moved(setup: Setup, *ops: str) -> int:
        return sum(
            call.count * call.size_bytes
            for call in calls_of(setup, 0)
            if call.op in ops and call.phase in ("forward", "backward")
        )

    once = moved(plain, "all_reduce")
    x = plain.rows * plain.model.sequence * plain.model.hidden * 2
    assert moved(split, "reduce_scatter") == once
    assert moved(split, "all_gather") == once + 2 * x  # and those of split and join


@given(
    st.sampled_from(["zero1", "zero2", "fsdp"]), st.integers(1, 3), st.booleans(),
    st.sampled_from([1, 2]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_memory_never_grows_with_more_data_parallel_ranks(
    kind: str, halvings: int, overlap: bool, tensor: int
) -> None:
    """Each rank trains as many sequences; what copies share gets less for each."""

    def total(ranks: int) -> int:
        typed = TrainTyped(
            "dp", dp=ranks, tp=tensor, batch=ranks, data_parallel=kind, overlap=overlap, **BIG
        )
        return memory_of(setup_of(typed, ranks * tensor, "nccl"), 0).total

    sizes = [total(2**n) for n in range(halvings + 2)]
    assert sizes == sorted(sizes, reverse=True)
    if kind == "fsdp":
        assert sizes[-1] < sizes[0]


def test_fsdp_keeps_less_than_zero2_and_that_less_than_ddp() -> None:
    kept = [
        memory_of(setup_of(TrainTyped("dp", data_parallel=kind, **BIG), GPUS, "nccl"), 0).total
        for kind in ("fsdp", "zero2", "zero1", "ddp")
    ]
    assert kept[0] < kept[1] < kept[2] <= kept[3]


@pytest.mark.parametrize("name", COMBINED)
def test_products_of_all_ranks_are_those_of_the_model(name: str) -> None:
    """But for what several ranks do alike: the head along tp, and a mixture where tp does not split it."""
    setup = made(name)
    alone = replace(setup, mesh=replace(setup.mesh, dp=1, tp=1, pp=1, ep=1, sequence=None))
    one = replace(alone, train=replace(alone.train, micro_batches=1, chunks=1))
    whole = work_of(one, range(setup.model.layers))
    mine = sum(plan_of(setup, rank).flops for rank in range(GPUS))
    head = sum(o.flops * o.count for o in (*whole.forward, *whole.backward) if o.name == "head")
    assert mine == pytest.approx(whole.flops + (setup.mesh.tp - 1) * head, rel=1e-9)


def test_early_stages_of_1f1b_keep_more_micro_batches_than_late_ones() -> None:
    setup = made("1f1b")
    kept = [memory_of(setup, rank).activations for rank in range(GPUS - 1)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 3 * kept[-1]
    assert [place_of(rank, setup.mesh).pp for rank in range(GPUS)] == list(range(GPUS))


@pytest.mark.parametrize("hurt", [None, "n0/gpu1/nvswitch*", "n1/gpu5/nvswitch*"])
@pytest.mark.parametrize("name", ["tp", "sp", "ep"])
def test_hosts_alike_are_asked_once_and_a_worse_one_for_itself(name: str, hurt: str | None) -> None:
    """As if all groups were asked for together, which takes as long as there are hosts."""
    fabric = load_fabric("dgx-h100-2node")
    if hurt is not None:
        fabric = break_fabric(fabric, [f"{hurt}:half"])
    typed = TrainTyped(name, tp=8 if name != "ep" else None, dp=2 if name != "ep" else 16, ep=8)
    if name != "ep":
        typed = replace(typed, ep=None)
    setup = setup_of(replace(typed, **BIG), 16, "nccl")
    found = what_if(setup, fabric, H100)
    placed = place_on(fabric, 16).ranks
    within = [one for one in found.priced if one.call.axis in ("tp", "ep")]
    assert within
    for one in within:
        groups = groups_of(one.call.axis, setup.mesh)
        together = predict(
            PredictRequest(
                fabric=fabric,
                groups=tuple(tuple(placed[r] for r in group) for group in groups),
                collective=one.call.op,
                size_bytes=one.call.size_bytes,
                dtype=one.call.dtype,
                op="sum",
                backend="nccl",
            )
        )
        assert one.each_us == pytest.approx(together.time_us)
    if hurt is not None:
        whole = what_if(setup, load_fabric("dgx-h100-2node"), H100)
        assert found.step_us > whole.step_us


@given(
    st.floats(0, 1e4), st.lists(st.floats(0, 1e3), max_size=8),
    st.lists(st.floats(0, 1e3), max_size=8),
)  # fmt: skip
def test_hidden_calls_expose_no_more_than_all_and_no_less_than_what_does_not_fit(
    compute: float, before: list[float], after: list[float]
) -> None:
    exposed = exposed_us(compute, before, after)
    total = sum(before) + sum(after)
    assert max(0.0, total - compute) - 1e-6 <= exposed <= total + 1e-6
    if before:
        assert exposed >= before[0] - 1e-6  # nothing computes before it is there
    if after:
        assert exposed >= after[-1] - 1e-6  # nothing is left to compute beside it


def test_a_long_computation_hides_all_but_the_first_gather_and_the_last_result() -> None:
    assert exposed_us(1e6, [10.0] * 5, [7.0] * 5) == pytest.approx(17.0)
    assert exposed_us(0.0, [10.0] * 5, [7.0] * 5) == pytest.approx(85.0)
    assert exposed_us(123.0, [], []) == 0.0


def test_a_gpu_waits_for_the_host_where_the_host_waited_for_it() -> None:
    """Not where the host is the slower one all along; on cores there is no waiting, only issuing."""
    gpu = replace(named_compute("H100-SXM5-80GB", "bfloat16"), issue_us=40.0)
    long, wait = Op("copy", "memory", 0.0, 1e9), Op("counts", "wait", 0.0, 0.0, kernels=3)
    short = Op("copies", "memory", 0.0, 1.0, kernels=1000)
    assert gpu.time_us([long, wait]) == pytest.approx(gpu.time_us([long]) + 120.0)
    assert gpu.time_us([short, wait]) == pytest.approx(1003 * 40.0)
    cores = replace(gpu, behind=False)
    assert cores.time_us([long, wait]) == pytest.approx(cores.time_us([long]) + 120.0)


def test_cores_hide_nothing() -> None:
    """Communication takes the cores that it would hide behind."""
    setup = made("dp")
    on_cores = Compute("cores", ((1.0, 1.0),), 1.0, 100.0, 100.0, 5.0, False, "a test")
    found = what_if(setup, faster(1), on_cores)
    assert found.hidden_us == 0
    assert found.communication_us == pytest.approx(sum(one.total_us for one in found.priced))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fast", "unknown GPU 'fast'"),
        ("H100-SXM5-80G", "did you mean 'H100-SXM5-80GB'"),
        ("600", "unknown GPU"),
        ("600,", "--compute"),
        ("0,3000", "--compute"),
        ("nan,1", "--compute"),
        (None, "--compute probe"),
    ],
)
def test_rates_that_nobody_knows_are_refused(text: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compute_of(text, faster(1), made("dp"))


def test_ranks_that_do_not_fit_the_fabric_are_refused() -> None:
    with pytest.raises(UsageError, match="at most its 8 GPUs"):
        what_if(setup_of(TrainTyped("dp"), 16, "nccl"), nvlink(), H100)


def test_the_fabrics_own_gpu_is_taken() -> None:
    assert compute_of(None, nvlink(), made("dp")) == H100
