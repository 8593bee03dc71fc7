"""The picture as text: well formed, self-contained, complete, the same every time, nothing overlapping."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from xml.etree.ElementTree import Element

import pytest
from defusedxml import ElementTree

from clusterlab.topology.design.load import list_designs, load_fabric
from clusterlab.topology.drawing.bundles import Bundle, usual_text
from clusterlab.topology.drawing.layout import picture
from clusterlab.topology.drawing.marks import Panel, Text, text_width
from clusterlab.topology.drawing.svg import fabric_svg
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.repeated import Repeated
from tests.topology.clusters import small, superpod

SVG = "{http://www.w3.org/2000/svg}"
WIDEST = 1600


def parsed(fabric: Fabric) -> Element:
    return ElementTree.fromstring(fabric_svg(fabric))


def words(fabric: Fabric) -> str:
    return " | ".join(e.text or "" for e in parsed(fabric).iter(f"{SVG}text"))


def shown(mark: Text) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a text, estimated wide."""
    width = text_width(mark.text, mark.size, bold="bold" in mark.css)
    if mark.turned:
        return mark.x - mark.size * 0.8, mark.y - width, mark.x + mark.size * 0.2, mark.y
    left = mark.x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor]
    return left, mark.y - mark.size * 0.8, left + width, mark.y + mark.size * 0.2


def overlapping(fabric: Fabric) -> list[tuple[str, str]]:
    return overlaps(picture(fabric)[0])


def overlaps(panel: Panel) -> list[tuple[str, str]]:
    texts = [(m.text, shown(m)) for m in panel.marks if isinstance(m, Text) and m.text]
    return [
        (a, b)
        for (a, (l1, t1, r1, b1)), (b, (l2, t2, r2, b2)) in combinations(texts, 2)
        if min(r1, r2) - max(l1, l2) > 1 and min(b1, b2) - max(t1, t2) > 1
    ]


@pytest.mark.parametrize("name", [n for n in list_designs() if n != "host"])
def test_every_design_is_drawn_within_bounds_and_no_text_runs_into_another(name: str) -> None:
    fabric = load_fabric(name)
    panel, _ = picture(fabric)
    width, height = panel.width, panel.height
    assert width <= WIDEST
    assert height <= 2 * WIDEST
    for mark in panel.marks:
        if isinstance(mark, Text):
            left, top, right, bottom = shown(mark)
            assert left >= 0 and top >= 0 and right <= width + 1 and bottom <= height, mark
    assert overlaps(panel) == []


def test_the_picture_is_the_same_every_time_and_fetches_nothing() -> None:
    text = fabric_svg(superpod(31, 4))
    assert text == fabric_svg(superpod(31, 4))
    assert "<script" not in text
    assert "href" not in text
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme:dark" in text
    assert '<rect class="back"' in text


def test_title_and_description_say_what_is_drawn() -> None:
    root = parsed(break_fabric(small(), ["leaf0"]))
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Fabric small"
    said = root.findtext(f"{SVG}desc") or ""
    assert "8 leaves" in said
    assert "leaf down: leaf0 (rail 0)" in said
    assert "Nothing is down" in (parsed(small()).findtext(f"{SVG}desc") or "")


def test_one_node_names_every_device_and_what_its_links_carry() -> None:
    said = words(load_fabric("dgx-h100"))
    for name in ("gpu0", "gpu7", "nic0", "nvswitch3", "pcie7", "root9", "storage3"):
        assert name in said
    assert "cpu0 · Xeon-8480C · NUMA 0 · 56 cores" in said
    assert "5 links/GPU" in said
    assert "NVLink: 144 links of 20.6 GB/s (wire 25) each way" in said
    assert "rail 7" in said


def test_one_su_shows_every_host_and_leaf_and_tells_rails_without_colour() -> None:
    said = words(superpod(31, 4))
    for i in range(31):
        assert f"| n{i} |" in said
    assert "leaf7 · rail 7" in said
    assert "each line: 8 cables, | 384 GB/s" in said
    panel, _ = picture(superpod(31, 4))
    across = {
        mark.title: mark.dash
        for mark in panel.marks
        if getattr(mark, "title", "") in {f"leaf{i}" for i in range(8)} and hasattr(mark, "dash")
    }
    assert len(across) == 8
    assert len(set(across.values())) == 8


def test_four_sus_are_boxes_with_cable_counts() -> None:
    said = words(load_fabric("superpod-h100-4su"))
    assert "16 spines" in said
    assert said.count("32 nodes x 8 GPUs") == 3
    assert "31 nodes x 8 GPUs" in said
    assert "each line: 256 cables, | 12.29 TB/s" in said


def test_sixty_four_sus_are_cores_pods_and_one_pod() -> None:
    said = words(load_fabric("superpod-b200-64su"))
    assert "256 cores" in said
    assert said.count("2,048 GPUs") == 8
    assert "Inside pod 0, one of 8" in said
    assert "Inside SU 0, one of 64" in said


def test_a_rack_shows_its_nvswitches_once() -> None:
    said = words(load_fabric("gb200-nvl72"))
    assert "18 NVSwitches (nvswitch0 … nvswitch17)" in said
    assert "each node: 72 links, 2,887 GB/s" in said
    assert "each GPU: 18 links to 18 NVSwitches outside, 721.8 GB/s" in said


def test_a_mesh_tells_one_link_from_two() -> None:
    said = words(load_fabric("dgx-1v"))
    assert "8 pairs: 1 link, 20 GB/s" in said
    assert "8 pairs: 2 links, 40 GB/s" in said
    assert "28 pairs: 1 link, 48 GB/s" in words(load_fabric("mi300x"))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("leaf3/spine2#1", ["1 of 8 down", "link down: leaf3/spine2: 1 of 8 ib links down"]),
        ("n5/nic3", ["Inside n5", "nic down: n5/nic3 (rail 3)"]),
        ("n5/nic3/leaf3:half", ["50%", "link degraded: n5/nic3/leaf3"]),
        ("leaf6", ["leaf down: leaf6 (rail 6)"]),
        ("n9", ["host down: n9: 8 GPUs"]),
        ("n3/gpu2/pcie2:half", ["Inside n3", "50%", "link degraded: n3/gpu2/pcie2"]),
        ("n0/nvswitch2", ["Inside n0", "nvswitch down: n0/nvswitch2"]),
    ],
)
def test_a_failure_is_red_crossed_or_marked_and_told_in_words(what: str, says: list[str]) -> None:
    healthy = fabric_svg(superpod(31, 4))
    assert 'class="fault"' not in healthy
    assert " down" not in re.sub(r"<style>.*</style>|<desc>.*</desc>", "", healthy)
    fabric = break_fabric(superpod(31, 4), [what])
    text = fabric_svg(fabric)
    assert 'class="fault"' in text
    assert "stroke-dasharray" in text
    assert "<path" in text
    for phrase in says:
        assert phrase in words(fabric)
    assert overlapping(fabric) == []


def test_failures_are_shown_where_equal_things_are_drawn_once() -> None:
    fabric = break_fabric(superpod(127, 16), ["n40/nic3", "spine7"])
    said = words(fabric)
    assert "16 down" in said
    assert "down: spine7" in said
    assert "Inside SU 1, one of 4, with faults" in said
    assert "Inside n40" in said
    assert overlapping(fabric) == []


def test_a_thousand_faults_stay_one_picture() -> None:
    text = fabric_svg(break_fabric(superpod(127, 16), ["n*/nic*/leaf*", "n*/gpu*:half"]))
    root = ElementTree.fromstring(text)
    assert float(root.get("height", "")) < 3 * WIDEST
    assert len(text) < 400_000


def odd(name: str, **more: object) -> Device:
    return Device(name, "leaf", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fabric",
    [
        Fabric("a&b <c>", [odd("x\x07<&>\"'"), odd("y")], [Link("x\x07<&>\"'", "y", "ib", None)]),
        Fabric("empty of links", [odd("only")], []),
        Fabric(
            "gpus", [Device("g0", "gpu"), Device("g1", "gpu")], [Link("g0", "g1", "nvlink", 20.0)]
        ),
        Fabric("hosts", [Device(f"h{i}", "host", host=f"h{i}") for i in range(200)], []),
        Fabric(
            "long names",
            [Device("n" * 300 + f"{i}/gpu", "gpu", host="n" * 300 + str(i)) for i in range(3)],
            [],
        ),
        Fabric("one way", [odd("a"), odd("b")], [Link("b", "a", "ethernet", 1.0)]),
    ],
    ids=lambda fabric: fabric.name,
)
def test_odd_fabrics_are_drawn_too(fabric: Fabric) -> None:
    root = parsed(fabric)
    assert float(root.get("width", "")) <= WIDEST
    assert overlapping(fabric) == []


def lacking(fabric: Fabric, a: str, b: str) -> Fabric:
    """``fabric`` as a discovery sees it where the cables between two switches were never plugged."""
    return fabric.with_links({(a, b): [], (b, a): []})


def crossed(fabric: Fabric, host: str) -> Fabric:
    """``fabric`` with the cables of a host's first two NICs exchanged at the leaves."""
    changes = {}
    nics = [f"{host}/nic{i}" for i in range(2)]
    ends = [next(k for k in fabric.links_from(n) if k.dst.startswith("leaf")) for n in nics]
    for nic, own, other in zip(nics, ends, reversed(ends), strict=True):
        there = replace(own, dst=other.dst)
        changes[nic, own.dst] = [there]
        changes[own.dst, nic] = [replace(there, src=there.dst, dst=there.src)]
    return fabric.with_links(changes)


def without_leaf(fabric: Fabric, leaf: str) -> Fabric:
    gone = [k for k in fabric.links if leaf in (k.src, k.dst)]
    cut = fabric.with_links({(k.src, k.dst): [] for k in gone})
    assert isinstance(cut.devices, Repeated)
    left = [d for d in cut.devices.single if d.name != leaf]
    return replace(cut, devices=Repeated(cut.devices.groups, left, cut.devices.at_host))


def test_cabling_faults_are_said_and_drawn_where_nothing_is_down() -> None:
    fabric = crossed(lacking(superpod(31, 4), "leaf3", "spine2"), "n5")
    root = parsed(fabric)
    said = root.findtext(f"{SVG}desc") or ""
    assert "Nothing is down. Found in the cabling:" in said
    assert "cross wired rails: leaf1 – host n5" in said
    assert "leaf3: 24 uplinks live" in said
    texts = words(fabric)
    assert "24 of 32 uplinks" in texts
    assert "0 of 8" in texts
    assert "Found in the cabling" in texts
    ringed = [e for e in root.iter(f"{SVG}circle") if e.get("class") == "fault"]
    assert len(ringed) == 2
    assert overlapping(fabric) == []
    assert "Found in the cabling" not in words(superpod(31, 4))


def test_of_many_units_the_one_with_faults_is_shown_and_marked() -> None:
    whole = load_fabric("superpod-h100-4su")
    assert "Inside SU 0, one of 4" in words(whole)
    fabric = without_leaf(lacking(whole, "leaf3", "spine2"), "leaf18")
    texts = words(fabric)
    assert texts.index("Inside SU 2, one of 4, with faults") < texts.index("Inside SU 0, one of 4")
    assert "no leaf of rail 2" in texts
    assert "cables missing" in texts
    assert overlapping(fabric) == []


def test_a_managers_host_hides_nobodys_gpus_and_is_no_node() -> None:
    fabric = load_fabric("superpod-h100-4su")
    ufm = Device("ufm/mlx5_0", "nic", host="ufm", role="management")
    sharp = Device("aggregation-1", "nic", role="aggregation")
    cables = [Link(d.name, "leaf0", "ib", 48.0) for d in (ufm, sharp)]
    more = replace(
        fabric,
        devices=(*fabric.devices, ufm, sharp),
        links=(*fabric.links, *cables, *(replace(k, src=k.dst, dst=k.src) for k in cables)),
    )
    texts = words(more)
    assert texts.count("32 nodes x 8 GPUs") == 3
    assert "1 other host" in texts
    assert "1 aggregation node." in (parsed(more).findtext(f"{SVG}desc") or "")
    assert "aggregation-1" not in texts


def test_lines_of_many_kinds_are_told_by_their_extremes() -> None:
    found = [Bundle("a", "b", n, 0, 0, n * 50.0, n * 50.0, None) for n in (65, 67, 70, 72, 72)]
    assert usual_text(found) == "each line: 65 to 72 cables, 3,250 GB/s to 3,600 GB/s"
    assert usual_text(found[:2]) == "1 line: 65 cables, 3,250 GB/s; 1 line: 67 cables, 3,350 GB/s"
    assert usual_text(found[3:]) == "each line: 72 cables, 3,600 GB/s"
    assert usual_text([]) == ""
