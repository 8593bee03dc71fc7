"""A table: what every variable that can only take something away does on machines of every kind.

The prediction gets slower, stays as it is, or says in a note that or why it does not follow.
"""

from __future__ import annotations

import json
from functools import cache

import pytest

from clusterlab.cli.main import main
from clusterlab.core.errors import UsageError
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.place import place_on
from tests.cost.fabrics import load_fabric

DESIGNS = (
    "dgx-h100", "dgx-a100", "mi300x", "alps-gh200", "a100-pcie-8", "gb200-nvl72", "dgx-h100-2node",
)  # fmt: skip
TAKING_AWAY = (
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_P2P_LEVEL", "LOC"),
    ("NCCL_SHM_DISABLE", "1"),
    ("NCCL_IB_DISABLE", "1"),
    ("NCCL_NET", "Socket"),
    ("NCCL_NET_GDR_LEVEL", "LOC"),
    ("NCCL_NET_GDR_C2C", "0"),
    ("NCCL_IB_HCA", "nic0"),
    ("NCCL_PXN_DISABLE", "1"),
    ("NCCL_CROSS_NIC", "0"),
    ("NCCL_MNNVL_ENABLE", "0"),
    ("NCCL_NVLS_ENABLE", "0"),
    ("NCCL_COLLNET_ENABLE", "0"),
    ("NCCL_MAX_NCHANNELS", "2"),
    ("NCCL_MAX_CTAS", "2"),
    ("NCCL_NVLS_NCHANNELS", "2"),
    ("NCCL_MAX_P2P_NCHANNELS", "2"),
    ("NCCL_NCHANNELS_PER_NET_PEER", "1"),
    ("NCCL_MIN_NCHANNELS", "64"),
    ("NCCL_MIN_CTAS", "64"),
    ("NCCL_NTHREADS", "64"),
    ("NCCL_BUFFSIZE", "65536"),
    ("NCCL_LL128_C2C", "0"),
    ("NCCL_IB_QPS_PER_CONNECTION", "1"),
    ("NCCL_TOPO_FILE", "/etc/topo.xml"),
)
COLLECTIVES = ("all_reduce", "all_gather", "all_to_all", "send_recv")
SIZES = (1 << 13, 1 << 20, 1 << 30)


@cache
def design(name: str) -> Fabric:
    return load_fabric(name)


def asked(name: str, collective: str, size: int, **variables: str) -> Prediction:
    fabric = design(name)
    placement = place_on(fabric, len(fabric.of_kind("gpu")))
    return predict(
        PredictRequest(
            fabric=fabric, groups=one_group(placement), collective=collective, size_bytes=size,
            backend="nccl", issue="graph", overrides=variables,
        )
    )  # fmt: skip


def noted(found: Prediction, variable: str) -> list[str]:
    return [note for note in found.notes if variable in note]


@pytest.mark.parametrize(("variable", "value"), TAKING_AWAY)
@pytest.mark.parametrize("name", DESIGNS)
def test_slower_or_equal_or_noted(name: str, variable: str, value: str) -> None:
    for collective in COLLECTIVES:
        for size in SIZES:
            plain, found = (
                asked(name, collective, size),
                asked(name, collective, size, **{variable: value}),
            )
            notes = noted(found, variable)
            assert len(notes) <= 1
            slower = found.time_us >= plain.time_us * (1 - 1e-9)
            assert slower or notes, (collective, size, found.time_us / plain.time_us)


UNCOUNTED = (
    "NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_CUMEM_ENABLE", "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE",
    "NCCL_TUNER_PLUGIN", "NCCL_NVLS_CHUNKSIZE", "NCCL_HOSTID", "NCCL_PROXY_CPUSET",
    "NCCL_CTA_POLICY", "NCCL_CHANNELS", "RCCL_MSCCL_ENABLE",
)  # fmt: skip


@pytest.mark.parametrize("variable", UNCOUNTED)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("name", ["dgx-h100", "mi300x"])
def test_what_is_not_modelled_has_one_note_everywhere(
    name: str, collective: str, variable: str
) -> None:
    found = asked(name, collective, 1 << 20, **{variable: "1"})
    assert noted(found, variable) == [f"{variable} is set; the prediction does not count it"]
    assert found.time_us == asked(name, collective, 1 << 20).time_us


@pytest.mark.parametrize(
    "variable",
    ["NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_IB_TIMEOUT", "NCCL_RAS_ENABLE", "NCCL_COMM_ID"],
)
def test_what_moves_no_bytes_has_no_note(variable: str) -> None:
    found = asked("dgx-h100-2node", "all_reduce", 1 << 20, **{variable: "1"})
    assert found == asked("dgx-h100-2node", "all_reduce", 1 << 20)


@pytest.mark.parametrize(
    ("name", "collective", "variables", "said"),
    [
        ("mi300x", "all_reduce", {"NCCL_ALGO": "nvls"}, "NCCL_ALGO=nvls leaves nothing for all_reduce; RCCL"),
        ("mi300x", "all_gather", {"NCCL_ALGO": "tree"}, "takes ring"),
        ("dgx-h100", "all_to_all", {"NCCL_ALGO": "ring"}, "NCCL has no choice of algorithms for all_to_all"),
        ("dgx-h100", "send_recv", {"NCCL_PROTO": "LL"}, "NCCL has no choice of algorithms for send_recv"),
        ("mi300x", "send_recv", {"NCCL_ALGO": "ring"}, "RCCL has no choice of algorithms for send_recv"),
        ("dgx-h100", "all_reduce", {"NCCL_P2P_DISABLE": "1"}, "does not take NVLS away"),
        ("dgx-h100", "all_reduce", {"NCCL_P2P_LEVEL": "LOC"}, "does not take NVLS away"),
        ("dgx-h100", "all_reduce", {"NCCL_MAX_NCHANNELS": "1"}, "does not bound NVLS, which has 16 channels"),
        ("dgx-h100", "all_gather", {"NCCL_MIN_CTAS": "48"}, "48 channels instead of 24"),
        ("dgx-h100", "all_gather", {"NCCL_NTHREADS": "64"}, "does not count it"),
        ("dgx-h100", "all_gather", {"NCCL_THREAD_THRESHOLDS": "1 1 1"}, "does not count it"),
        ("a100-pcie-8", "all_reduce", {"NCCL_SHM_DISABLE": "1"}, "would go by the network"),
        ("dgx-h100", "all_reduce", {"NCCL_P2P_LEVEL": "0", "NCCL_SHM_DISABLE": "1"}, "go by the network"),
        ("dgx-h100-2node", "all_reduce", {"NCCL_IB_DISABLE": "1"}, "TCP over the same NICs, at most 1.5"),
        ("dgx-h100-2node", "all_reduce", {"NCCL_NET": "Socket"}, "NCCL_NET=Socket: TCP"),
        ("dgx-h100-2node", "all_reduce", {"NCCL_NET": "AWS Libfabric"}, "the NICs speak ib"),
        ("dgx-h100-2node", "all_reduce", {"NCCL_IB_HCA": "mlx5_0"}, "no NIC of the fabric is called so"),
        ("dgx-h100-2node", "all_to_all", {"NCCL_PXN_DISABLE": "1"}, "would cross the spines"),
        ("dgx-h100-2node", "all_reduce", {"NCCL_COLLNET_ENABLE": "1"}, "changes nothing: no leaf"),
        ("gb200-nvl72", "all_reduce", {"NCCL_MNNVL_ENABLE": "0"}, "no cables of NICs are described"),
    ],
)  # fmt: skip
def test_what_acts_oddly_or_not_at_all_says_why(
    name: str, collective: str, variables: dict[str, str], said: str
) -> None:
    found = asked(name, collective, 1 << 30, **variables)
    assert [note for note in found.notes if said in note], found.notes


@pytest.mark.parametrize(
    ("name", "collective", "variables"),
    [
        ("dgx-h100", "all_reduce", {"NCCL_ALGO": "ring"}),
        ("mi300x", "all_reduce", {"NCCL_ALGO": "tree,ring"}),
        ("dgx-h100", "all_gather", {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}),
        ("dgx-h100", "all_gather", {"NCCL_MAX_NCHANNELS": "4"}),
        ("dgx-h100", "all_gather", {"NCCL_MIN_NCHANNELS": "4"}),
        ("dgx-h100", "all_gather", {"NCCL_NTHREADS": "512"}),
        ("dgx-h100", "all_to_all", {"NCCL_NTHREADS": "64"}),
        ("dgx-h100", "all_reduce", {"NCCL_SHM_DISABLE": "1"}),
        ("dgx-h100", "all_reduce", {"NCCL_IB_DISABLE": "1"}),
        ("dgx-h100", "all_reduce", {"NCCL_SOCKET_IFNAME": "eth0"}),
        ("dgx-h100-2node", "all_reduce", {"NCCL_SOCKET_IFNAME": "eth0"}),
        ("dgx-h100-2node", "all_reduce", {"NCCL_NET": "IB"}),
        ("dgx-h100-2node", "all_reduce", {"NCCL_IB_HCA": "=nic0,nic1"}),
        ("dgx-h100-2node", "all_reduce", {"NCCL_PXN_DISABLE": "1"}),
    ],
)
def test_what_acts_as_its_name_says_has_no_note(
    name: str, collective: str, variables: dict[str, str]
) -> None:
    assert not [n for n in asked(name, collective, 1 << 30, **variables).notes if "NCCL_" in n]


def test_notes_stand_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "--fabric", "dgx-h100", "-b", "1M", "-x", "NCCL_BUFFSIZE=65536"]
    said = "NCCL_BUFFSIZE is set; the prediction does not count it"
    assert main(words) == 0
    assert capsys.readouterr().out.count(f"note: {said}\n") == 1
    assert main([*words, "--json"]) == 0
    assert said in json.loads(capsys.readouterr().out)[0]["notes"]


@pytest.mark.parametrize("name", ["dgx-a100", "alps-gh200", "a100-pcie-8", "dgx-h100-2node"])
def test_nccl_stops_where_nccl_algo_leaves_nothing(name: str) -> None:
    with pytest.raises(UsageError, match="NCCL_ALGO: nothing is left for all_reduce"):
        asked(name, "all_reduce", 1 << 20, NCCL_ALGO="nvls")
