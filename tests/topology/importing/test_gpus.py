"""Which GPUs an import has, and what follows: NVLink's usable rate, NVLS, what predictions take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Severity
from clusterlab.cost.nccl.graphs.chips import chip
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.formats.nccl_tables import nvlink_GBps
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric, equal_hosts
from clusterlab.topology.importing.files import read_files
from clusterlab.topology.importing.gpus import with_gpus
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.merge import merge
from clusterlab.topology.importing.nvlink_s import read_nvlink_s
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.place import place_on
from clusterlab.topology.repeated import Repeated

H100 = "NVIDIA H100 80GB HBM3"


def matrix(gpus: int = 8, links: int = 18) -> str:
    rows = ["\t" + "\t".join(f"GPU{i}" for i in range(gpus)) + "\tCPU Affinity\tNUMA Affinity"]
    for i in range(gpus):
        cells = [" X " if i == j else f"NV{links}" for j in range(gpus)]
        half = 2 * i // gpus
        rows.append("\t".join([f"GPU{i}", *cells, f"{half * 56}-{half * 56 + 55}", str(half)]))
    return "\n".join(rows) + "\n"


def listing(model: str, GBps: float, gpus: int = 8, links: int = 18, *, first: int = 0) -> str:
    lines = []
    for i in range(first, first + gpus):
        lines.append(f"GPU {i}: {model} (UUID: GPU-{i:08x})")
        lines += [f"\t Link {k}: {GBps:g} GB/s" for k in range(links)]
    return "\n".join(lines) + "\n"


def imported(folder: Path, *texts: str, gpu: str | None = None) -> Imported:
    paths = []
    for i, text in enumerate(texts):
        paths.append(folder / f"{i}.txt")
        paths[-1].write_text(text)
    return read_files(paths, gpu=gpu)


def codes(found: Imported) -> list[str]:
    return [f.code for f in found.findings]


def predicted(fabric: Fabric, collective: str, variables: Mapping[str, str]) -> Prediction:
    return predict(
        PredictRequest(
            fabric=fabric,
            groups=one_group(place_on(fabric, 8)),
            collective=collective,
            size_bytes=1 << 30,
            backend="nccl",
            overrides=variables,
        )
    )


def all_reduce(fabric: Fabric) -> Prediction:
    return predicted(fabric, "all_reduce", {})


GENERATIONS = [
    ("Tesla V100-SXM2-32GB", 25.781, 6, 70),
    ("NVIDIA A100-SXM4-80GB", 25.0, 12, 80),
    ("NVIDIA A800-SXM4-80GB", 25.0, 8, 80),
    ("NVIDIA RTX A6000", 14.062, 4, 86),
    (H100, 26.562, 18, 90),
    ("NVIDIA H800", 26.562, 8, 90),
    ("NVIDIA H20", 26.562, 18, 90),
    ("NVIDIA B200", 53.125, 18, 100),
    ("NVIDIA B300 SXM6 AC", 53.125, 18, 103),
]


@pytest.mark.parametrize(("model", "wire", "links", "sm"), GENERATIONS)
def test_the_listing_of_links_names_the_gpus_and_gives_what_nccl_counts(
    tmp_path: Path, model: str, wire: float, links: int, sm: int
) -> None:
    found = imported(tmp_path, matrix(8, links), listing(model, wire, 8, links))
    assert set(found.fabric.models("gpu")) == {model}
    nvlinks = [k for k in found.fabric.links if k.link_class == "nvlink"]
    assert {(k.GBps, k.wire_GBps) for k in nvlinks} == {(nvlink_GBps(sm), wire)}
    assert all(k.GBps_source and k.wire_source for k in nvlinks)
    switches = found.fabric.of_kind("nvswitch")
    assert {d.in_network for d in switches} == {sm >= 90}
    assert ("nvls_ruled_out" in codes(found)) == (sm < 90)
    assert "gpu_model_unknown" not in codes(found)


@pytest.mark.parametrize("more", ["listing", "gpu"])
def test_an_imported_hopper_board_predicts_like_the_shipped_one(tmp_path: Path, more: str) -> None:
    if more == "listing":
        found = imported(tmp_path, matrix(), listing(H100, 26.562))
    else:
        found = imported(tmp_path, matrix(), gpu="H100")
    ours, shipped = all_reduce(found.fabric), all_reduce(load_fabric("hgx-h100"))
    assert (ours.algorithm, ours.protocol) == ("nvls", "simple")
    assert ours.time_us == pytest.approx(shipped.time_us)
    assert not any("model" in note or "NVLS" in note for note in ours.notes)


@pytest.mark.parametrize(("model", "wire", "links", "sm"), GENERATIONS)
@pytest.mark.parametrize("digits", [1, 3])
def test_the_rate_alone_tells_the_generation(
    tmp_path: Path, model: str, wire: float, links: int, sm: int, digits: int
) -> None:
    found = imported(tmp_path, matrix(8, links), listing("", round(wire, digits), 8, links))
    (said,) = found.fabric.models("gpu")
    assert said is not None
    assert chip(said).capability == {103: 100}.get(sm, sm)  # both are Blackwell to NCCL
    assert "gpu_model_inferred" in codes(found)
    assert {k.GBps for k in found.fabric.links if k.link_class == "nvlink"} == {nvlink_GBps(sm)}


@pytest.mark.parametrize(("wire", "links"), [(25.781, 2), (12.0, 4), (40.0, 18)])
def test_a_rate_that_fits_several_or_none_is_left_alone(
    tmp_path: Path, wire: float, links: int
) -> None:
    found = imported(tmp_path, matrix(2, links), listing("", wire, 2, links))
    assert found.fabric.models("gpu") == {None: 2}
    assert {k.GBps for k in found.fabric.links if k.link_class == "nvlink"} == {None}
    assert "gpu_model_unknown" in codes(found)


def test_gpus_that_nothing_names_are_said_loudly_with_what_predictions_take(tmp_path: Path) -> None:
    found = imported(tmp_path, matrix())
    (finding,) = [f for f in found.findings if f.code == "gpu_model_unknown"]
    assert finding.severity == Severity.WARNING
    assert "18 NVLinks: Hopper (H100, H200, H20) or Blackwell" in finding.evidence[1]
    taken = all_reduce(found.fabric)
    assert "sm_80" in finding.evidence[-2]
    assert any("taken for one of sm_80" in note for note in taken.notes)
    assert "NVLS" in finding.evidence[-1]
    assert taken.algorithm != "nvls"
    assert "--gpu" in finding.fix


@pytest.mark.parametrize("shipped", ["hgx-h100", "hgx-b200"])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "broadcast", "all_to_all"])
def test_a_prediction_says_where_only_the_switches_silence_rules_nvls_out(
    shipped: str, collective: str
) -> None:
    told = load_fabric(shipped)
    devices = tuple(replace(d, in_network=False) for d in told.devices)
    silent = replace(told, devices=devices)
    by_switch = collective in ("all_reduce", "all_gather")
    for fabric, variables, said in (
        (told, {}, False),
        (silent, {}, by_switch),
        (silent, {"NCCL_NVLS_ENABLE": "0"}, False),
    ):
        notes = predicted(fabric, collective, variables).notes
        assert any("NVLS is ruled out" in note for note in notes) == said


@pytest.mark.parametrize("model", ["Generic XPU", "Neural Processing Unit", "npu"])
def test_a_model_that_names_no_gpu_is_as_unknown_as_none(model: str) -> None:
    fabric = Fabric("x", (Device("n0/gpu0", "gpu", host="n0", model=model),), ())
    found = with_gpus(Imported("infragraph", fabric))
    assert codes(found) == ["gpu_model_unknown"]
    assert repr(model) in found.findings[0].evidence[0]
    named = with_gpus(Imported("infragraph", fabric), "H100")
    assert named.fabric.models("gpu") == {"H100": 1}


def test_what_the_user_says_gives_rates_where_only_links_were_counted(tmp_path: Path) -> None:
    found = imported(tmp_path, matrix(), gpu="H100")
    rates = {(k.GBps, k.wire_GBps) for k in found.fabric.links if k.link_class == "nvlink"}
    assert rates == {(20.6, 25.0)}
    assert {d.in_network for d in found.fabric.of_kind("nvswitch")} == {True}


def test_what_the_user_says_against_the_rate_is_taken_and_doubted(tmp_path: Path) -> None:
    found = imported(tmp_path, matrix(), listing("", 26.562), gpu="A100")
    assert set(found.fabric.models("gpu")) == {"A100"}
    assert "gpu_model_doubtful" in codes(found)


@pytest.mark.parametrize(
    ("texts", "gpu", "message"),
    [
        ([matrix()], "H10O", r"unknown GPU 'H10O'.*did you mean 'H100'\?"),
        ([matrix()], "", "unknown GPU ''"),
        ([matrix(), listing(H100, 26.562)], "A100", "n0/gpu0 is 'NVIDIA H100 80GB HBM3' there"),
        (["SwitchName=s0 Nodes=n[1-4]\n"], "H100", "no GPU to be 'H100'"),
    ],
)
def test_a_model_that_cannot_be_is_refused(
    tmp_path: Path, texts: list[str], gpu: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        imported(tmp_path, *texts, gpu=gpu)


def test_a_generation_may_be_given_its_chip() -> None:
    fabric = Fabric("x", (Device("n0/gpu0", "gpu", host="n0", model="sm_90"),), ())
    found = with_gpus(Imported("nccl_xml", fabric), "H200")
    assert found.fabric.models("gpu") == {"H200": 1}
    with pytest.raises(UsageError, match="'sm_90' there"):
        with_gpus(Imported("nccl_xml", fabric), "A100")


def hosts_of(model: str | None, count: int) -> Fabric:
    """Equal hosts of four GPUs on one NVSwitch."""
    devices = [Device(f"gpu{i}", "gpu", model=model) for i in range(4)]
    link = [Link(d.name, "sw", "nvlink", None, multiplicity=18) for d in devices]
    back = [replace(k, src=k.dst, dst=k.src) for k in link]
    names = [f"a{i:03d}" for i in range(count)]
    return Fabric("many", *equal_hosts(names, [*devices, Device("sw", "nvswitch")], [*link, *back]))


@pytest.mark.parametrize(("model", "asked"), [("H200", None), (None, "H200")])
def test_equal_hosts_stay_equal(model: str | None, asked: str | None) -> None:
    found = with_gpus(Imported("merged", hosts_of(model, 2000)), asked).fabric
    assert isinstance(found.devices, Repeated)
    assert isinstance(found.links, Repeated)
    assert [len(g.hosts) for g in found.devices.groups] == [2000]
    assert found.models("gpu") == {"H200": 8000}
    assert found.device("a1999/sw").in_network
    assert {k.GBps for k in found.links_from("a1999/gpu3")} == {20.6}


def test_a_switch_of_several_hosts_multicasts_for_new_gpus_alone() -> None:
    """One NVSwitch outside the hosts, as in a rack."""
    for model, multicasts in (("GB200", True), ("A100", False), (None, False)):
        inside = [Device(f"gpu{i}", "gpu", model=model) for i in range(2)]
        ends = [f"t{h}/gpu{i}" for h in range(3) for i in range(2)]
        links = [Link(e, "nvs", "nvlink", None) for e in ends]
        links += [Link("nvs", e, "nvlink", None) for e in ends]
        devices, all_links = equal_hosts(
            ["t0", "t1", "t2"], inside, [], others=[Device("nvs", "nvswitch")], other_links=links
        )
        found = with_gpus(Imported("nccl_xml", Fabric("rack", devices, all_links))).fabric
        assert found.device("nvs").in_network == multicasts


def test_one_gpu_s_listing_stands_for_its_siblings_where_it_names_one_model(tmp_path: Path) -> None:
    """``nvidia-smi nvlink -s -i 0``."""
    found = imported(tmp_path, matrix(), listing(H100, 26.562, gpus=1))
    assert found.fabric.models("gpu") == {H100: 8}
    (said,) = [f for f in found.findings if f.code == "gpu_model_assumed"]
    assert said.evidence[0].startswith("n0/gpu[1-7]: not in")
    assert all_reduce(found.fabric).algorithm == "nvls"
    two = listing(H100, 26.562, gpus=1) + listing("NVIDIA A100-SXM4-80GB", 25.0, gpus=1, first=1)
    mixed = imported(tmp_path, matrix(), two)
    assert mixed.fabric.models("gpu") == {H100: 1, "NVIDIA A100-SXM4-80GB": 1, None: 6}
    assert "gpu_model_unknown" in codes(mixed)


def test_the_two_files_of_different_machines_are_told(tmp_path: Path) -> None:
    node = Fabric(
        "n0",
        tuple(Device(f"n0/gpu{i}", "gpu", host="n0", model="A100-SXM4-80GB") for i in range(2)),
        (),
        origin="node.xml",
    )
    merged = merge([Imported("nccl_xml", node), read_nvlink_s(listing(H100, 26.562, 2), file="l")])
    assert "gpu_models_disagree" in codes(merged)
    assert set(merged.fabric.models("gpu")) == {"A100-SXM4-80GB"}
