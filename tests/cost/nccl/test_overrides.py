"""NCCL's environment variables: their grammar and what they do."""

from dataclasses import replace

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.channels import communicator_channels, nvls_channels
from clusterlab.cost.nccl.choice import ranked
from clusterlab.cost.nccl.communicator import Graph
from clusterlab.cost.nccl.entry import setting_of
from clusterlab.cost.nccl.overrides import NO_OVERRIDES, apply_overrides, parse_overrides
from clusterlab.cost.nccl.tuning import tuning_table
from tests.cost.nccl.nccl_logs import h100_nodes, h200_pair


def used(collective, comm, variables, size=1 << 20):
    return {
        (c.algorithm, c.protocol)
        for c in ranked(collective, size, comm, parse_overrides(variables))
    }


def test_nothing_set_is_no_override():
    assert parse_overrides({}) == NO_OVERRIDES
    assert parse_overrides({"NCCL_ALGO": " ", "PATH": "/bin"}) == NO_OVERRIDES


@pytest.mark.parametrize(
    ("text", "collective", "left"),
    [
        ("ring", "all_reduce", {"ring"}),
        ("Tree,RING", "all_reduce", {"tree", "ring"}),
        ("^tree", "all_reduce", {"ring", "nvls_tree"}),
        ("ring;allreduce:tree", "all_reduce", {"tree"}),
        ("ring;allreduce:tree", "all_gather", {"ring"}),
        ("allreduce:tree", "all_gather", {"ring"}),
        ("allreduce:^ring,tree;broadcast:ring", "all_reduce", {"nvls_tree"}),
        ("ring;AllReduce:NVLSTree", "all_reduce", {"nvls_tree"}),
    ],
)
def test_nccl_algo_selects_per_collective(text, collective, left):
    comm = h100_nodes(4, 8, version="2.30.7")
    assert {a for a, _ in used(collective, comm, {"NCCL_ALGO": text})} == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("LL", {"ll"}),
        ("^ll128", {"ll", "simple"}),
        ("Simple;allreduce:LL128", {"ll128"}),
        ("LL,Simple;allgather:^LL", {"ll", "simple"}),
    ],
)
def test_nccl_proto_selects_likewise(text, left):
    comm = h100_nodes(4, 8, version="2.30.7")
    got = {p for a, p in used("all_reduce", comm, {"NCCL_PROTO": text, "NCCL_ALGO": "ring,tree"})}
    assert got == left


def test_asking_for_ll128_skips_its_own_conditions():
    comm = h100_nodes(2, 8, version="2.30.7", compute_capability=60)
    assert tuning_table("all_reduce", comm)["ring", "ll128"].algbw_GBps == 0
    asked = parse_overrides({"NCCL_PROTO": "LL128"})
    assert tuning_table("all_reduce", comm, asked)["ring", "ll128"].algbw_GBps > 0


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("NCCL_ALGO", "rings", "did you mean 'Ring'"),
        ("NCCL_ALGO", "ring;tree", "names no collective"),
        ("NCCL_ALGO", "ring;allred:tree", "unknown collective 'allred'"),
        ("NCCL_ALGO", "allreduce:", "lists nothing"),
        ("NCCL_ALGO", ";", "selects nothing"),
        ("NCCL_ALGO", "^", "lists nothing"),
        ("NCCL_PROTO", "LL256", "expected one of LL, LL128, Simple"),
        ("NCCL_NVLS_ENABLE", "3", "0 (off), 1 (on) or 2"),
        ("NCCL_NVLS_ENABLE", "yes", "a whole number"),
        ("NCCL_COLLNET_ENABLE", "2", "expected 0 or 1"),
        ("NCCL_MAX_NCHANNELS", "0", "1 to 64"),
        ("NCCL_MIN_NCHANNELS", "65", "0 to 64"),
        ("NCCL_NTHREADS", "100", "multiple of 32"),
        ("NCCL_P2P_LEVEL", "pix", "did you mean 'PIX'"),
        ("NCCL_NET_GDR_LEVEL", "FAR", "in capitals"),
        ("NCCL_CROSS_NIC", "9", "0 to 2"),
        ("NCCL_NET_OVERHEAD", "-5", "0 to"),
        ("NCCL_THREAD_THRESHOLDS", "1 2 3 4 5 6 7", "up to six"),
    ],
)
def test_a_value_that_nccl_would_not_understand_is_refused(variable, value, said):
    with pytest.raises(UsageError) as refused:
        parse_overrides({variable: value})
    assert said in str(refused.value)
    assert str(refused.value).startswith(variable)


def test_a_minimum_above_the_maximum_is_refused():
    with pytest.raises(UsageError, match="above NCCL_MAX_CTAS=4"):
        parse_overrides({"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "4"})


def test_what_changes_the_graph_is_handed_on():
    graph = parse_overrides(
        {
            "NCCL_P2P_DISABLE": "1",
            "NCCL_P2P_LEVEL": "2",
            "NCCL_SHM_DISABLE": "0",
            "NCCL_IB_DISABLE": "1",
            "NCCL_NET_GDR_LEVEL": "SYS",
            "NCCL_CROSS_NIC": "1",
            "NCCL_PXN_DISABLE": "1",
            "NCCL_MNNVL_ENABLE": "0",
            "NCCL_NET": "Socket",
            "NCCL_NET_GDR_C2C": "0",
        }
    ).graph
    assert (graph.p2p_disable, graph.p2p_level, graph.shm_disable) == (True, "PXB", False)
    assert (graph.ib_disable, graph.gdr_level, graph.cross_nic) == (True, "SYS", 1)
    assert (graph.pxn_disable, graph.mnnvl) == (True, False)
    assert (graph.net, graph.gdr_c2c) == ("socket", False)


def test_what_acts_on_channels_alone_searches_no_new_graph():
    asked = {"NCCL_MAX_NCHANNELS": "8", "NCCL_MIN_CTAS": "4", "NCCL_NTHREADS": "64"}
    assert parse_overrides(asked).graph == NO_OVERRIDES.graph


def test_nvls_off_leaves_no_nvls():
    comm = h100_nodes(1, 8, version="2.30.7")
    off = parse_overrides({"NCCL_NVLS_ENABLE": "0"})
    assert ranked("all_reduce", 1 << 30, comm)[0].algorithm == "nvls"
    without = apply_overrides(comm, off)
    assert not without.nvls
    assert "nvls" not in without.graphs
    assert {c.algorithm for c in ranked("all_reduce", 1 << 30, without, off)} == {"ring", "tree"}
    assert apply_overrides(comm, NO_OVERRIDES) is comm


def test_channel_limits_bound_the_channels_of_a_call():
    comm = h200_pair()
    assert ranked("all_reduce", 1 << 30, comm)[0].channels == 24
    for variables, channels in (
        ({"NCCL_MAX_NCHANNELS": "4"}, 4),
        ({"NCCL_MAX_CTAS": "6"}, 6),
        ({"NCCL_MIN_NCHANNELS": "32"}, 32),
        ({"NCCL_MAX_NCHANNELS": "4", "NCCL_MIN_NCHANNELS": "8"}, 8),
    ):
        best = ranked("all_reduce", 1 << 30, comm, parse_overrides(variables))[0]
        assert best.channels == channels, variables


def test_nvls_channels_follow_version_nodes_and_user():
    def count(comm, **variables):
        return nvls_channels(setting_of(comm, parse_overrides(variables)))

    assert count(h100_nodes(1, 8)) == 16
    blackwell = {"compute_capability": 100}
    assert count(h100_nodes(1, 8, "2.30.7", **blackwell)) == 24
    assert count(h100_nodes(2, 8, "2.29.7", **blackwell)) == 32
    assert count(h100_nodes(1, 8, "2.26.2", **blackwell)) == 32
    assert count(h100_nodes(1, 8), NCCL_NVLS_NCHANNELS="4") == 4
    assert count(h100_nodes(1, 8), NCCL_MAX_CTAS="8") == 8


def test_hopper_doubles_its_channels_between_nodes_where_rings_are_wide():
    def count(comm):
        return communicator_channels(setting_of(comm, NO_OVERRIDES))

    assert count(h100_nodes(2, 8)) == 16
    assert count(h100_nodes(2, 4)) == 16  # 24 GB/s each: not wide
    wide = h100_nodes(2, 8).graphs
    assert wide["ring"].intra_GBps > 45


def test_net_overhead_lengthens_rings_between_nodes():
    comm = h100_nodes(4, 8)
    slow = parse_overrides({"NCCL_NET_OVERHEAD": "8000"})
    default = tuning_table("all_reduce", comm)["ring", "ll"].latency_us
    assert tuning_table("all_reduce", comm, slow)["ring", "ll"].latency_us > default
    alone = h100_nodes(1, 8)
    assert tuning_table("all_reduce", alone, slow) == tuning_table("all_reduce", alone)


def test_what_leaves_nothing_stops_newer_releases_and_makes_older_ones_take_ring():
    tree = parse_overrides({"NCCL_ALGO": "tree"})
    with pytest.raises(UsageError, match="nothing is left for all_gather"):
        ranked("all_gather", 1024, h100_nodes(2, 8, "2.24.3"), tree)
    assert ranked("all_gather", 1024, h100_nodes(2, 8, "2.23.4"), tree)[0].algorithm == "ring"


def test_pat_is_for_one_gpu_per_node_unless_asked_for():
    lone, many = h100_nodes(8, 1, "2.30.7"), h100_nodes(4, 8, "2.30.7")
    pat = ("pat", "simple")
    assert tuning_table("all_gather", lone)[pat].algbw_GBps > 0
    assert tuning_table("all_gather", many)[pat].algbw_GBps == 0
    assert (
        tuning_table("all_gather", many, parse_overrides({"NCCL_PAT_ENABLE": "1"}))[pat].algbw_GBps
        > 0
    )
    assert (
        tuning_table("all_gather", lone, parse_overrides({"NCCL_PAT_ENABLE": "0"}))[pat].algbw_GBps
        == 0
    )
    assert tuning_table("all_reduce", lone)[pat].algbw_GBps == 0


def test_collnet_needs_the_network_and_the_user():
    comm = h100_nodes(4, 8, "2.30.7", collnet=True, heads=8)
    comm = replace(
        comm, graphs={**comm.graphs, "collnet_direct": Graph("collnet_direct", 8, 40, 48)}
    )
    on = parse_overrides({"NCCL_COLLNET_ENABLE": "1"})
    direct = ("collnet_direct", "simple")
    assert tuning_table("all_reduce", comm)[direct].algbw_GBps == 0
    assert tuning_table("all_reduce", comm, on)[direct].algbw_GBps > 0
    assert tuning_table("all_reduce", replace(comm, nvswitch=False), on)[direct].algbw_GBps == 0
    few = replace(comm, heads=4)
    assert tuning_table("all_gather", comm, on)["nvls", "simple"].algbw_GBps > 0
    assert tuning_table("all_gather", few, on)["nvls", "simple"].algbw_GBps == 0
