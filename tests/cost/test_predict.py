import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.collectives import SWEPT, busbw_factor
from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import groups_of
from clusterlab.cost.gloo.host import PLAIN_REDUCTION, reduction_constant
from clusterlab.cost.predict import as_predicted, predict, predict_groups
from clusterlab.cost.types import Constant, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import host_fabric
from clusterlab.topology.place import place_on
from tests.cost.examples import HOST, VALUES, calibration, request
from tests.cost.fabrics import load_fabric
from tests.topology.fabrics import leaf_spine

collectives = st.sampled_from(sorted(SWEPT))
sizes = st.integers(1, 1 << 34)
NCCL_FABRICS = ["h100-1", "h100-2", "h200-2", "hgx-h100", "dgx-h100-2node"]


def requests_on_gpus() -> st.SearchStrategy[PredictRequest]:
    def build(name: str, ranks: int, collective: str, size: int, issue: str) -> PredictRequest:
        fabric = load_fabric(name)
        ranks = 1 + ranks % len(fabric.of_kind("gpu"))
        return request(fabric, ranks, collective, size, backend="nccl", issue=issue)

    issues = st.sampled_from(["eager", "graph", "library"])
    return st.builds(
        build, st.sampled_from(NCCL_FABRICS), st.integers(0, 15), collectives, sizes, issues
    )


def requests_on_hosts() -> st.SearchStrategy[PredictRequest]:
    return st.builds(
        lambda ranks, collective, size, dtype: request(None, ranks, collective, size, dtype=dtype),
        st.integers(1, 12),
        collectives,
        sizes,
        st.sampled_from(["float32", "float16", "bfloat16", "int8"]),
    )


def requests_on_links() -> st.SearchStrategy[PredictRequest]:
    def build(fabric: Fabric, collective: str, size: int) -> PredictRequest:
        return request(fabric, len(fabric.of_kind("gpu")), collective, size, backend="gloo")

    return st.builds(build, leaf_spine(), collectives, sizes)


any_request = st.one_of(requests_on_gpus(), requests_on_hosts(), requests_on_links())


@given(any_request)
@settings(max_examples=300, deadline=None)
def test_no_prediction_beats_the_bound(asked: PredictRequest) -> None:
    answer = predict(asked)
    assert answer.time_us >= answer.bound.time_us >= 0
    assert 0 <= answer.bottleneck.utilisation <= 1
    if answer.time_us == 0:  # one rank alone has nothing to do
        assert len(asked.groups[0]) == 1
        return
    assert answer.algbw_GBps == pytest.approx(asked.size_bytes / answer.time_us / 1e3)
    factor = busbw_factor(asked.collective, len(asked.groups[0]))
    assert answer.busbw_GBps == pytest.approx(answer.algbw_GBps * factor)


@given(any_request, st.integers(1, 1 << 34))
@settings(max_examples=300, deadline=None)
def test_more_bytes_never_take_less_time(asked: PredictRequest, more: int) -> None:
    larger = dataclasses.replace(asked, size_bytes=asked.size_bytes + more)
    smaller, bigger = predict(asked), predict(larger)
    assert bigger.time_us >= smaller.time_us * (1 - 1e-9)
    assert bigger.bound.time_us >= smaller.bound.time_us * (1 - 1e-9)


@given(requests_on_links(), st.floats(1.0, 100.0))
def test_faster_links_never_take_longer(asked: PredictRequest, factor: float) -> None:
    faster = dataclasses.replace(
        asked.fabric,
        links=tuple(
            dataclasses.replace(ln, GBps=(ln.GBps or 1.0) * factor) for ln in asked.fabric.links
        ),
    )
    before, after = predict(asked), predict(dataclasses.replace(asked, fabric=faster))
    assert after.time_us <= before.time_us * (1 + 1e-9)
    assert after.bound.time_us <= before.bound.time_us * (1 + 1e-9)


def test_spellings_of_the_collective_mean_the_same() -> None:
    assert predict(request(collective="AllReduce")) == predict(request(collective="all_reduce"))


def test_a_request_that_makes_no_sense_is_refused() -> None:
    good = request()
    rank = good.groups[0][0]
    for changes, message in (
        ({"collective": "all_reduse"}, "did you mean 'all_reduce'"),
        ({"dtype": "float31"}, "did you mean 'float32'"),
        ({"backend": "mpi"}, "unknown backend 'mpi'; expected one of gloo, nccl"),
        ({"size_bytes": 0}, "size: size 0; expected at least 1 byte"),
        ({"groups": ()}, "a group without ranks"),
        ({"groups": (good.groups[0], ())}, "a group without ranks"),
        ({"groups": (good.groups[0], (rank,))}, "rank 0 is in two groups at once"),
        ({"root": 4}, "root: root 4 of 4 ranks; expected 0 to 3"),
        ({"groups": ((dataclasses.replace(rank, device=None),),)}, "rank 0 has no device"),
        ({"groups": ((dataclasses.replace(rank, device="here/cpu9"),),)}, "no device 'here/cpu9'"),
        ({"calibration": None}, "no bandwidth is known between the ranks"),
        ({"calibration": calibration(backend="mpi")}, "test calibration: made with backend mpi"),
        ({"calibration": calibration(system="other")}, "made on another system: other"),
        ({"backend": "nccl", "calibration": None}, "rank 0 is on here/cpu0, no GPU"),
    ):
        with pytest.raises(UsageError) as caught:
            predict(dataclasses.replace(good, **changes))
        assert message in str(caught.value)


def test_two_groups_share_the_links_they_both_need() -> None:
    fabric = load_fabric("lab-2x4")
    placed = place_on(fabric, 8).ranks
    across = ((placed[0], placed[4]), (placed[1], placed[5]))
    alone = predict(PredictRequest(fabric, across[:1], "all_gather", 1 << 20))
    together = predict(PredictRequest(fabric, across, "all_gather", 1 << 20))
    assert together.time_us == pytest.approx(2 * alone.time_us)


def test_each_group_has_a_time_of_its_own_beside_the_others() -> None:
    """Rank pairs across the hosts share the NICs; those inside a host wait for nobody."""
    fabric = load_fabric("lab-2x4")
    placed = place_on(fabric, 8).ranks
    across = ((placed[0], placed[4]), (placed[1], placed[5]))
    inside = (placed[2], placed[3])  # by links without a figure
    for collective in ("all_gather", "gather", "all_to_all_v"):
        asked = PredictRequest(fabric, (*across, inside), collective, 1 << 20)
        first, second, local = predict_groups(asked)
        assert first is not None and second is not None
        alone = predict(dataclasses.replace(asked, groups=across[:1]))
        assert first.time_us == pytest.approx(2 * alone.time_us)
        assert second.time_us == pytest.approx(first.time_us)
        assert local is None
        assert predict(asked).time_us == max(first.time_us, second.time_us)


@given(
    st.sampled_from([*NCCL_FABRICS[1:], "lab-2x4"]),
    st.sampled_from(["node", "rail", "halves", "nodes:1"]),
    collectives,
    st.integers(10, 30),
)
@settings(max_examples=60, deadline=None)
def test_no_group_beats_its_bound_nor_itself_alone(
    name: str, pattern: str, collective: str, log_size: int
) -> None:
    fabric = load_fabric(name)
    placed = place_on(fabric, len(fabric.of_kind("gpu")))
    groups = tuple(
        tuple(placed.ranks[r] for r in group.ranks) for group in groups_of(pattern, placed)
    )
    backend = "gloo" if name.startswith("lab") else "nccl"
    asked = PredictRequest(fabric, groups, collective, 1 << log_size, backend=backend)
    together = predict_groups(asked)
    assert len(together) == len(groups)
    for group, answer in zip(groups, together, strict=True):
        if answer is None:
            assert backend == "gloo"
            continue
        alone = predict(dataclasses.replace(asked, groups=(group,)))
        assert answer.time_us >= answer.bound.time_us
        assert answer.time_us >= alone.time_us * (1 - 1e-9)


@given(
    st.one_of(requests_on_gpus(), requests_on_hosts(), requests_on_links()),
    st.sampled_from(["linear", "hot:0.4", "hot:1", "random:2"]),
)
@settings(max_examples=100, deadline=None)
def test_uneven_parts_are_predicted_above_their_bound(asked: PredictRequest, uneven: str) -> None:
    answer = predict(dataclasses.replace(asked, collective="all_to_all_v", uneven=uneven))
    assert answer.time_us >= answer.bound.time_us >= 0


def test_gloo_sends_a_hot_rank_through_its_own_nic() -> None:
    """Everything goes to rank 0: its NIC takes what the other host's four ranks send."""
    fabric = load_fabric("lab-2x4")
    size = 8 << 20
    hot = request(fabric, 8, "all_to_all_v", size, backend="gloo", uneven="hot:1")
    answer = predict(hot)
    assert answer.busbw_GBps == pytest.approx(0.0238 * (7 / 8) / (4 / 8), rel=0.02)
    gather = predict(request(fabric, 8, "gather", size, backend="gloo"))
    assert answer.time_us == pytest.approx(gather.time_us, rel=0.02)


def test_only_an_all_to_all_v_has_uneven_parts() -> None:
    with pytest.raises(UsageError, match="all_gather has equal parts"):
        predict(request(collective="all_gather", uneven="linear"))
    with pytest.raises(UsageError, match="a matrix of 2 ranks for 4"):
        predict(request(collective="all_to_all_v", uneven="matrix:1 2/3 4"))


def test_the_lab_s_ring_runs_at_its_nics_rate() -> None:
    """One ring edge leaves each node: busbw is the NIC's usable rate."""
    fabric = load_fabric("lab-2x4")
    answer = predict(request(fabric, 8, "all_gather", 16 << 20, backend="gloo"))
    assert answer.busbw_GBps == pytest.approx(0.0238)
    assert answer.bottleneck.name in ("n0/nic0->leaf0", "leaf0->n1/nic0", "n1/nic0->leaf0",
                                      "leaf0->n0/nic0")  # fmt: skip
    assert any("no calibration" in note for note in answer.notes)
    assert any("bandwidth unknown" in note for note in answer.notes)


def test_a_slow_link_sets_the_time_even_with_a_calibration() -> None:
    fabric = load_fabric("lab-2x4")
    links = predict(request(fabric, 8, "all_gather", 16 << 20))
    both = predict(request(fabric, 8, "all_gather", 16 << 20, calibration=calibration()))
    assert both.time_us == links.time_us
    assert both.bottleneck.name == links.bottleneck.name


def test_the_interval_comes_from_the_calibration_and_stays_above_the_bound() -> None:
    answer = predict(request())
    assert answer.interval is not None
    assert answer.interval.low_us == pytest.approx(0.8 * answer.time_us)
    assert answer.interval.high_us == pytest.approx(1.25 * answer.time_us)
    assert answer.interval.coverage == 0.8
    assert predict(request(collective="broadcast")).interval is None  # nothing known about it


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_a_reduction_that_was_not_measured_takes_the_plain_rate_and_is_said(
    dtype: str, op: str
) -> None:
    few = calibration(
        constants=tuple(
            Constant(n, v, "1", "test")
            for n, v in VALUES.items()
            if not n.startswith("reduce_us_per_MiB.")
        )
    )
    answer = predict(request(dtype=dtype, op=op, calibration=few))
    assert answer.time_us == predict(request(calibration=few)).time_us
    if reduction_constant(dtype, op) != PLAIN_REDUCTION:
        assert any("was not measured" in note for note in answer.notes)


def test_leaving_what_was_calibrated_costs_the_interval_and_is_said() -> None:
    narrow = calibration(world_sizes=(4, 4), sizes_bytes=(1024, 1 << 24))
    inside = predict(request(calibration=narrow))
    assert inside.interval is not None
    assert not inside.notes
    more_ranks = predict(request(None, 5, calibration=narrow))
    larger = predict(request(size_bytes=1 << 25, calibration=narrow))
    assert more_ranks.interval is larger.interval is None
    assert more_ranks.notes == ("5 ranks: calibrated with 4",)
    assert larger.notes == ("33554432 B: calibrated from 1024 to 16777216 B",)


def test_provenance_names_every_constant_with_its_source() -> None:
    names = {c.name for c in predict(request(dtype="float16")).provenance}
    assert names == {
        "message_us.all_reduce",
        "transport_us_per_MiB",
        "reduce_us_per_MiB.float16",
        "overlap",
        "cores",
    }
    nccl = predict(request(load_fabric("hgx-h100"), 8, backend="nccl"))
    assert all(c.source for c in nccl.provenance)


def test_the_row_s_plain_values() -> None:
    answer = predict(request())
    row = as_predicted(answer)
    assert (row.time_us, row.bound_time_us) == (answer.time_us, answer.bound.time_us)
    assert (row.algorithm, row.protocol) == ("ring", None)
    assert answer.interval is not None
    assert (row.low_us, row.high_us, row.coverage) == (
        answer.interval.low_us,
        answer.interval.high_us,
        0.8,
    )
    assert row.provenance == "test"


def test_a_broken_fabric_is_refused_by_name() -> None:
    fabric = load_fabric("dgx-h100-2node")
    cut = dataclasses.replace(
        fabric,
        links=tuple(
            dataclasses.replace(ln, health=0.0) if "leaf0" in ln.name else ln for ln in fabric.links
        ),
    )
    with pytest.raises(UsageError, match="no NIC of n0 leads into the network"):
        predict(request(cut, 16, backend="nccl"))


def test_slow_reductions_cost_more_where_something_is_reduced() -> None:
    def time_us(collective: str, dtype: str, op: str | None) -> float:
        return predict(
            request(collective=collective, size_bytes=16 << 20, dtype=dtype, op=op)
        ).time_us

    assert time_us("all_reduce", "float16", "sum") > 1.5 * time_us("all_reduce", "float32", "sum")
    assert time_us("reduce", "bfloat16", "max") > time_us("reduce", "bfloat16", "sum")
    assert time_us("all_gather", "float16", None) == time_us("all_gather", "float32", None)


def test_more_cores_lower_the_bound() -> None:
    two = predict(request(collective="send_recv", size_bytes=1 << 24)).bound
    facts = dataclasses.replace(HOST, domains=(dataclasses.replace(HOST.domains[0], cores=(0,)),))
    fabric = host_fabric(facts)
    one = predict(
        PredictRequest(
            fabric, one_group(place_on(fabric, 4)), "send_recv", 1 << 24,
            calibration=calibration(system=facts.description),
        )
    ).bound  # fmt: skip
    assert one.time_us == pytest.approx(2 * two.time_us)
