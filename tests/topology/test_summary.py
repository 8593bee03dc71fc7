import json
from dataclasses import replace

import pytest

from clusterlab.cli.topo_text import summary_text
from clusterlab.topology.design.load import fabric_from_yaml, load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.parts import Device, Link, Role
from clusterlab.topology.summary import summary
from tests.topology.clusters import small, superpod


def test_a_cable_counts_once_for_its_two_directions() -> None:
    found = summary(load_fabric("dgx-h100-2node"))
    assert found["devices"] == {
        "gpu": 16,
        "nvswitch": 8,
        "pcie_switch": 16,
        "cpu": 4,
        "nic": 16,
        "leaf": 1,
    }
    assert {(ln["class"], ln["count"], ln["GBps"]) for ln in found["links"]} == {
        ("nvlink", 16 * 18, 20.6),
        ("pcie", 16 + 16 + 16, 48.0),
        ("upi", 2, 22.0),
        ("ib", 16, 48.0),
    }
    assert (found["rails"], found["rail_aligned"]) == (0, False)  # all NICs on one switch


WIRE = "links: {w: {class: ethernet, GBps: 48, GBps_source: here}}\n"
ALIGNED = "clos: [{attach: 'nic{i}', rails: 8, hosts_per_su: 2, links: {leaf: w}}]"
MIXED = (
    "clos: [{attach: 'nic*', hosts_per_su: 2, spines: 1, uplinks: 8, links: {leaf: w, spine: w}}]"
)
BY_HAND = """devices: [{name: 'leaf{i}', kind: leaf, count: %d}]
  links: [{from: 'n*/nic%s', to: '%s', type: w}]"""


@pytest.mark.parametrize(
    ("network", "rails", "aligned"),
    [
        (ALIGNED, 8, True),
        (MIXED, 0, False),
        (BY_HAND % (8, "{i}", "leaf{i}"), 8, True),  # the leaves' rails are those of their cables
        (BY_HAND % (1, "*", "leaf0"), 0, False),
        (BY_HAND % (2, "*", "leaf*"), 0, False),
    ],
)
@pytest.mark.parametrize("hosts", ["{like: dgx-h100, count: 4}", "{like: dgx-b300, count: 4}"])
def test_rails_are_those_of_the_leaves_not_of_the_hosts_names(
    network: str, rails: int, aligned: bool, hosts: str
) -> None:
    text = f"{WIRE}hosts: {hosts}\nnetwork:\n  {network}\n"
    fabric = fabric_from_yaml(text, file="f.yaml", default_name="f")
    found = summary(fabric)
    assert (found["rails"], found["rail_aligned"]) == (rails, aligned)
    shown = summary_text(fabric).splitlines()[1]
    assert ("not rail-aligned" in shown) == (not aligned)
    assert (f"{rails} rails" in shown) == aligned


@pytest.mark.parametrize(("name", "rails"), [("dgx-h100", 8), ("hgx-h100", 0), ("lab-flat-4x2", 0)])
def test_hosts_alone_have_the_rails_they_name(name: str, rails: int) -> None:
    found = summary(load_fabric(name))
    assert (found["rails"], found["rail_aligned"]) == (rails, None)


def test_memory_and_unknown_rates_are_counted_too() -> None:
    links = summary(load_fabric("lab-2x4"))["links"]
    assert {"class": "memory", "count": 4, "GBps": None, "wire_GBps": None} in links
    assert {"class": "ethernet", "count": 2, "GBps": 0.0238, "wire_GBps": 0.025} in links


def test_a_superpod_by_tier() -> None:
    found = summary(load_fabric("superpod-h100-4su"))
    assert [(t["kind"], t["switches"], t["cables_down"]) for t in found["tiers"]] == [
        ("leaf", 32, 1016),
        ("spine", 16, 1024),
    ]
    assert (found["hosts"], found["rails"], found["planes"]) == (127, 8, 0)
    assert found["per_gpu"] == {
        "scale_up_GBps": pytest.approx(18 * 20.6),
        "scale_out_GBps": 48.0,
    }
    assert found["oversubscription"]["nominal"] == 1.0
    assert found["oversubscription"]["declared"] == {"compute": 1}
    assert found["bisection_GBps_at_most"] == 1024 * 48.0 / 2
    assert found["down"] == {"hosts": 0, "devices": 0, "connections": 0}


def test_what_is_down_shows_in_the_live_figures_only() -> None:
    found = summary(break_fabric(superpod(64, 8), ["spine7", "n3", "leaf5/spine0#1"]))
    leaf, spine = found["tiers"]
    assert (leaf["cables_down"], leaf["live_cables_down"]) == (512, 504)
    assert (spine["cables_down"], spine["live_cables_down"]) == (512, 512 - 64 - 1)
    assert spine["live_GBps_down"] == (512 - 64 - 1) * 48.0
    assert found["oversubscription"]["nominal"] == 1.0
    assert found["oversubscription"]["worst_leaf"] == "leaf5"
    assert found["oversubscription"]["live"] == pytest.approx(31 / 27)
    assert found["down"] == {"hosts": 1, "devices": 1, "connections": 1}


def test_the_node_inside_a_switch_is_counted_apart_from_adapters() -> None:
    sharp = Device("aggregation-1", "nic", role="aggregation")
    fabric = superpod(31, 4)
    cable = Link(sharp.name, "leaf0", "ib", 48.0)
    more = replace(
        fabric,
        devices=(*fabric.devices, sharp),
        links=(*fabric.links, cable, replace(cable, src="leaf0", dst=sharp.name)),
    )
    found, before = summary(more), summary(fabric)
    assert (found["aggregation_nodes"], before["aggregation_nodes"]) == (1, 0)
    assert found["devices"]["nic"] == before["devices"]["nic"] + 1
    assert found["tiers"] == before["tiers"]


def test_hosts_are_counted_by_what_they_serve() -> None:
    nics = [
        Device("a/mlx5_0", "nic", host="a", role="compute"),
        Device("a/mlx5_1", "nic", host="a", role="storage"),
        Device("ufm/mlx5_0", "nic", host="ufm", role="management"),
        Device("oss1/mlx5_0", "nic", host="oss1", role="storage"),
        Device("ubuntu/mlx5_0", "nic", host="ubuntu"),
        Device("b/gpu0", "gpu", host="b"),
    ]
    found = summary(Fabric("mixed", tuple(nics), ()))
    assert (found["hosts"], found["hosts_by_role"]) == (
        5,
        {"compute": 2, "storage": 1, "management": 1, "unknown": 1},
    )
    assert summary(superpod(31, 4))["hosts_by_role"] == {"compute": 31}


def host_with_nics(*nics: tuple[str, Role | None, float]) -> Fabric:
    """Two GPUs on a switch each, all below one CPU; NICs of (parent, role, GB/s)."""
    devices = [Device("h/cpu0", "cpu", host="h"), Device("h/card", "pcie_switch", host="h")]
    pairs = [("h/card", "h/cpu0", "pcie", 32.0)]
    for i in range(2):
        devices += [
            Device(f"h/gpu{i}", "gpu", host="h"),
            Device(f"h/sw{i}", "pcie_switch", host="h"),
        ]
        pairs += [(f"h/gpu{i}", f"h/sw{i}", "pcie", 48.0), (f"h/sw{i}", "h/cpu0", "pcie", 48.0)]
    for i, (parent, role, GBps) in enumerate(nics):
        devices.append(Device(f"h/nic{i}", "nic", host="h", role=role))
        pairs += [(f"h/nic{i}", f"h/{parent}", "pcie", 48.0), (f"h/nic{i}", "net", "ib", GBps)]
    links = [Link(*ends, c, GBps) for a, b, c, GBps in pairs for ends in ((a, b), (b, a))]  # type: ignore[arg-type]
    return Fabric("h", (*devices, Device("net", "external")), tuple(links))


@pytest.mark.parametrize(
    ("nics", "GBps"),
    [
        ([("sw0", None, 50.0), ("sw1", None, 50.0)], 50.0),
        # Storage ports on a card of their own, as on DGX A100: not the GPUs' NICs.
        (
            [("sw0", None, 25.0), ("sw1", None, 25.0), ("card", None, 25.0), ("card", None, 25.0)],
            25.0,
        ),
        ([("sw0", "compute", 50.0), ("sw1", "compute", 50.0), ("sw1", "storage", 50.0)], 50.0),
        ([("sw0", "compute", 50.0), ("sw1", "compute", 50.0), ("sw1", None, 25.0)], 50.0),
        # One GPU has two, of which nothing says what they serve.
        ([("sw0", None, 50.0), ("sw1", None, 50.0), ("sw1", None, 50.0)], None),
        ([("card", None, 50.0), ("card", None, 12.5)], None),
        ([("card", None, 50.0)], 25.0),
        ([("card", "management", 50.0)], None),
    ],
)
def test_only_nics_that_serve_gpus_count_for_them(
    nics: list[tuple[str, Role | None, float]], GBps: float | None
) -> None:
    assert summary(host_with_nics(*nics))["per_gpu"]["scale_out_GBps"] == GBps


def test_leaves_cut_from_every_spine_are_counted() -> None:
    found = summary(break_fabric(small(), ["leaf0/spine*"]))["oversubscription"]
    assert (found["leaves_without_uplink"], found["worst_leaf"]) == (1, "leaf0")


def test_equal_hosts_count_as_if_written_out() -> None:
    fabric = superpod(31, 4)
    out = replace(fabric, devices=tuple(fabric.devices), links=tuple(fabric.links))
    assert summary(out) == summary(fabric)


def test_a_rack_has_its_scale_up_outside_the_hosts() -> None:
    assert summary(load_fabric("gb200-nvl72"))["per_gpu"] == {
        "scale_up_GBps": pytest.approx(18 * 40.1),
        "scale_out_GBps": None,
    }


def test_the_summary_is_plain_data() -> None:
    assert json.loads(json.dumps(summary(superpod(31, 4)))) == summary(superpod(31, 4))


def test_a_tree_of_names_has_no_oversubscription() -> None:
    switches = [Device("s0", "leaf"), Device("s1", "spine")]
    hosts = [Device(f"h{i}", "host", host=f"h{i}") for i in range(4)]
    pairs = [("s0", "s1"), *((h.name, "s0") for h in hosts)]
    links = [Link(*ends, "network", None) for a, b in pairs for ends in ((a, b), (b, a))]
    found = summary(Fabric("tree", (*switches, *hosts), tuple(links)))
    assert found["oversubscription"]["live"] is None
    assert found["tiers"][0]["cables_down"] == 4
