"""Properties of NCCL's estimates over versions, machines and sizes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.collectives import REDUCE_OPS
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.choice import ranked
from clusterlab.cost.nccl.communicator import Communicator, Graph
from clusterlab.cost.nccl.loading import known_versions
from clusterlab.cost.nccl.overrides import parse_overrides
from clusterlab.cost.nccl.tuning import tuning_table
from clusterlab.cost.nccl.words import COLLECTIVES
from tests.cost.nccl.nccl_logs import h100_nodes, h200_pair

VERSIONS = [("nccl", v) for v in known_versions("nccl")] + [
    ("rccl", v) for v in known_versions("rccl")
]
SIZES = st.integers(0, 35).flatmap(lambda k: st.integers(2**k, 2 ** (k + 1)))


@st.composite
def communicators(draw):
    library, version = draw(st.sampled_from(VERSIONS))
    nodes, local = draw(st.integers(1, 40)), draw(st.integers(1, 8))
    if nodes * local == 1:
        local = 2
    channels = draw(st.integers(1, 16))
    intra = draw(st.sampled_from([12.0, 20.0, 30.0, 40.0, 80.0]))
    inter = draw(st.sampled_from([3.0, 12.0, 24.0, 48.0]))
    pattern = draw(st.sampled_from(["balanced_tree", "split_tree", "tree"]))
    link = draw(st.sampled_from(["NVL", "PIX", "SYS"]))
    graphs = {
        "ring": Graph("ring", channels, intra, inter, link),
        "tree": Graph(pattern, channels, intra, inter, link),
        "nvls": Graph("nvls", channels, intra, inter),
    }
    sm = draw(st.sampled_from([70, 80, 86, 90, 100, 120]))
    gpu = draw(st.sampled_from(["MI300X", "MI250X"])) if library == "rccl" else "GPU"
    return Communicator(
        nodes * local, nodes, local, None if library == "rccl" else sm, gpu, graphs,
        cpu=draw(st.sampled_from(["intel", "amd", "unknown"])),
        nvls=library == "nccl" and sm >= 90, library=library, version=version,
    )  # fmt: skip


def corrected(choice, comm):
    """Whether NCCL's correction by size acts on this entry: it makes larger sizes faster at its steps up."""
    newer = (comm.compute_capability or 0) >= 100
    trees = choice.algorithm == "tree" or (choice.algorithm == "nvls_tree" and newer)
    return trees or (comm.library == "rccl" and comm.nodes > 1)


@given(communicators(), st.sampled_from(COLLECTIVES), SIZES)
def test_times_are_positive_and_the_first_is_the_least(comm, collective, size):
    choices = ranked(collective, size, comm)
    times = [choice.time_us for choice in choices]
    assert times[0] > 0
    assert times == sorted(times)
    assert all(1 <= choice.channels <= 128 for choice in choices)


@given(communicators(), st.sampled_from(COLLECTIVES), SIZES, SIZES)
def test_an_entry_takes_no_less_for_a_larger_size_but_for_the_tree_correction(
    comm, collective, one, other
):
    small, large = sorted((one, other))
    after = {(c.algorithm, c.protocol): c for c in ranked(collective, large, comm)}
    for choice in ranked(collective, small, comm):
        if not corrected(choice, comm):
            assert choice.time_us <= after[choice.algorithm, choice.protocol].time_us * (1 + 1e-12)


@given(communicators(), st.sampled_from(COLLECTIVES), st.integers(1, 8))
def test_more_channels_are_never_slower(comm, collective, more):
    if comm.library == "nccl" and comm.nodes > 1 and not comm.nvls:
        comm = replace(comm, graphs={k: g for k, g in comm.graphs.items() if k != "nvls"})
    wider = replace(
        comm,
        graphs={k: replace(g, channels=g.channels + more) for k, g in comm.graphs.items()},
    )
    before, after = tuning_table(collective, comm), tuning_table(collective, wider)
    for cell, entry in before.items():
        assert after[cell].algbw_GBps >= entry.algbw_GBps * (1 - 1e-12), cell


def test_the_tree_correction_makes_a_larger_all_reduce_look_faster():
    comm = h100_nodes(4, 8, "2.30.7")
    tree = parse_overrides({"NCCL_ALGO": "tree", "NCCL_PROTO": "simple"})
    before = ranked("all_reduce", (1 << 23) - 1, comm, tree)[0].time_us
    assert ranked("all_reduce", 1 << 23, comm, tree)[0].time_us < before


def test_a_ring_between_nodes_has_a_plateau():
    comm = h100_nodes(4, 8, "2.30.7")
    ring = parse_overrides({"NCCL_ALGO": "ring", "NCCL_PROTO": "simple"})
    least = 64 * 16 * 32
    before, at = (ranked("all_reduce", s, comm, ring)[0] for s in (least - 1, least))
    assert at.time_us - before.time_us == pytest.approx(0.4 * at.latency_us, rel=1e-3)
    alone = h100_nodes(1, 8, "2.30.7")
    before, at = (ranked("all_reduce", s, alone, ring)[0] for s in (least - 1, least))
    assert at.time_us - before.time_us < 0.01


def test_nvls_wins_large_all_reduces_on_one_node_and_is_out_of_reach_without_a_sum_in_the_switch():
    comm = h100_nodes(1, 8, "2.30.7")
    assert ranked("all_reduce", 1 << 30, comm)[0].algorithm == "nvls"
    assert ranked("all_reduce", 1 << 30, comm, dtype="uint8")[0].algorithm == "ring"
    assert ranked("all_gather", 1 << 30, comm, dtype="uint8")[0].algorithm in ("ring", "nvls")


_SUMS = {"int32", "int64", "float16", "bfloat16", "float32", "float64"}
_EXTREMES = _SUMS - {"float32", "float64"}
_IN_SWITCH = {"sum": _SUMS, "min": _EXTREMES, "max": _EXTREMES, "prod": set(), "avg": set()}


@pytest.mark.parametrize("op", REDUCE_OPS)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize(
    ("collective", "nodes", "algorithm"),
    [
        ("all_reduce", 1, "nvls"),
        ("reduce_scatter", 1, "nvls"),
        ("all_gather", 1, "nvls"),
        ("all_reduce", 4, "nvls_tree"),
    ],
)
def test_nvls_is_on_offer_where_the_switches_reduce_this_type_by_this_operator(
    collective, nodes, algorithm, dtype, op
):
    comm = h100_nodes(nodes, 8, "2.30.7")
    offered = {c.algorithm for c in ranked(collective, 1 << 20, comm, dtype=dtype, op=op)}
    assert (algorithm in offered) == (collective == "all_gather" or dtype in _IN_SWITCH[op])
    assert "ring" in offered


def test_pat_scatters_no_averages():
    comm = h100_nodes(8, 1, "2.30.7")

    def offered(collective, op):
        return {c.algorithm for c in ranked(collective, 1 << 20, comm, op=op)}

    assert "pat" in offered("reduce_scatter", "sum") & offered("all_gather", "avg")
    assert "pat" not in offered("reduce_scatter", "avg")


def test_what_an_operator_leaves_nothing_of_is_said_with_the_operator():
    comm = h100_nodes(1, 8, "2.30.7")
    with pytest.raises(UsageError, match="nothing is left for all_reduce with float32 and prod"):
        ranked("all_reduce", 1024, comm, parse_overrides({"NCCL_ALGO": "nvls"}), op="prod")


def test_wide_rings_of_fp8_are_a_last_resort_since_2_24():
    comm = h100_nodes(2, 8, "2.30.7", nvls=False)
    assert ranked("all_reduce", 1 << 30, comm)[0].algorithm == "ring"
    assert ranked("all_reduce", 1 << 30, comm, dtype="float8_e5m2")[0].algorithm == "tree"
    old = h100_nodes(2, 8, "2.23.4", nvls=False)
    assert ranked("all_reduce", 1 << 30, old, dtype="float8_e5m2")[0].algorithm == "ring"


def test_nvls_tree_depends_on_the_release():
    rates = {
        version: tuning_table("all_reduce", h100_nodes(4, 8, version))[
            "nvls_tree", "simple"
        ].algbw_GBps
        for version in ("2.18.5", "2.19.3", "2.27.5", "2.28.9", "2.30.7")
    }
    assert rates["2.27.5"] == pytest.approx(160.0)
    assert rates["2.30.7"] == pytest.approx(8 * 45.5 * 32 / 62)
    assert rates["2.19.3"] == rates["2.27.5"] != rates["2.18.5"]


def test_equals_go_to_the_first_in_nccl_s_order():
    graphs = {"ring": Graph("ring", 12, 30, 30), "tree": Graph("tree", 0, 0, 0)}
    comm = replace(h200_pair(), graphs=graphs)
    order = [c.protocol for c in ranked("broadcast", 1, comm)]
    assert order == ["ll", "simple", "ll128"]


def test_one_rank_takes_no_time():
    alone = replace(h200_pair(), ranks=1, ranks_per_node=1)
    assert [c.time_us for c in ranked("all_reduce", 1024, alone)] == [0.0]


@pytest.mark.parametrize("collective", ["all_to_all", "send_recv"])
def test_what_nccl_does_not_model_is_refused(collective):
    with pytest.raises(UsageError, match="no model"):
        ranked(collective, 1024, h200_pair())


def test_no_bytes_are_refused():
    with pytest.raises(UsageError, match="at least 1"):
        ranked("all_reduce", 0, h200_pair())


def test_a_version_of_rccl_makes_its_own_table():
    graphs = {"ring": Graph("ring", 28, 12, 24), "tree": Graph("tree", 28, 12, 24)}
    comm = Communicator(
        8, 1, 8, None, "MI300X", graphs,
        intra="xgmi", cpu="amd", nvls=False, nvswitch=False, library="rccl", version="2.21.5",
    )  # fmt: skip
    table = tuning_table("all_reduce", comm)
    assert table["ring", "simple"].algbw_GBps == pytest.approx(336 * 8 / 14)
    assert table["ring", "simple"].latency_us == pytest.approx(17 + 14 * 2.1)
    assert table["ring", "ll"].algbw_GBps == pytest.approx(336 * 0.08 * 8 / 14)
    assert table["tree", "simple"].algbw_GBps == 0
    assert table["tree", "ll"].latency_us == pytest.approx(12 + 2 * 7 * 0.9)
    assert ranked("all_reduce", 1 << 30, comm)[0].algorithm == "ring"
    rooted = tuning_table("broadcast", comm)["ring", "ll"].algbw_GBps
    assert rooted == pytest.approx(336 * 0.08 * 1.65)


def test_the_same_question_is_answered_from_memory():
    comm = h100_nodes(2, 8, "2.30.7")
    again = h100_nodes(2, 8, "2.30.7")
    assert ranked("all_reduce", 4096, comm) is ranked("all_reduce", 4096, again)
