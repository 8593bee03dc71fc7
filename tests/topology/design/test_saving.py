"""What is written is what is read back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import fabric_from_yaml, list_designs, load_fabric
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import (
    DEVICE_KINDS,
    LINK_CLASSES,
    ROLES,
    TRANSPORTS,
    Device,
    Link,
)

NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
FIGURE = st.none() | st.floats(0.001, 1e4)
SMALL = st.none() | st.integers(0, 9)


def port_numbers(cables: int) -> st.SearchStrategy[tuple[int, ...]]:
    """A port for each cable, or nothing known."""
    each = st.lists(st.integers(0, 129), min_size=cables, max_size=cables).map(tuple)
    return st.just(()) | each


def _device(draw: st.DrawFn, name: str) -> Device:
    kind = draw(st.sampled_from(DEVICE_KINDS))
    spoken = st.none() | st.sampled_from(TRANSPORTS)
    return Device(
        name,
        kind,  # type: ignore[arg-type]
        host=draw(st.none() | st.sampled_from(["n0", "a b"])),
        model=draw(st.none() | NAMES),
        numa=draw(SMALL),
        rail=draw(SMALL),
        cores=draw(SMALL),
        memory_bytes=draw(st.none() | st.integers(1, 1 << 41)),
        in_network=draw(st.booleans()),
        role=draw(st.none() | st.sampled_from(ROLES)),  # type: ignore[arg-type]
        ports=draw(SMALL),
        pci=draw(st.none() | NAMES),
        guid=draw(st.none() | NAMES),
        cage=draw(st.none() | NAMES),
        listed_as=draw(st.none() | NAMES),
        transport=draw(spoken) if kind == "nic" else None,  # type: ignore[arg-type]
    )


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    devices = [_device(draw, name) for name in names]
    ends = draw(st.lists(st.permutations(names).map(lambda p: (p[0], p[1])), max_size=8))
    links = []
    for a, b in ends:
        rate = draw(FIGURE)
        cables = draw(st.integers(1, 18))
        link = Link(
            a,
            b,
            draw(st.sampled_from([c for c in LINK_CLASSES if c != "memory"])),  # type: ignore[arg-type]
            rate,
            latency_us=draw(FIGURE),
            multiplicity=cables,
            ports=draw(port_numbers(cables)),
            wire_GBps=None if rate is None else draw(st.none() | st.just(rate * 1.25)),
            rail=draw(SMALL),
            health=draw(st.sampled_from([0.0, 0.5, 1.0])),
            GBps_source="" if rate is None else "read",
        )
        link = replace(
            link,
            latency_source="" if link.latency_us is None else "read",
            wire_source="" if link.wire_GBps is None else "read",
        )
        back = replace(link, src=b, dst=a, ports=draw(port_numbers(cables)))
        links += [link, back] if draw(st.booleans()) else [link]
    return Fabric("f", tuple(devices), tuple(links), description=draw(st.just("") | NAMES))


def same(a: Fabric, b: Fabric) -> None:
    assert a.name == b.name
    assert a.description == b.description
    assert list(a.devices) == list(b.devices)
    assert sorted(a.links, key=repr) == sorted(b.links, key=repr)


@settings(max_examples=50, deadline=None)
@given(fabrics())
def test_any_fabric_comes_back(fabric: Fabric) -> None:
    same(fabric, fabric_from_yaml(fabric_to_yaml(fabric), file="f.yaml", default_name="x"))


@pytest.mark.parametrize("name", ["host", "hgx-h100", "dgx-h100-2node", "lab-2x4", "dgx-1v"])
def test_a_design_comes_back(name: str) -> None:
    fabric = load_fabric(name)
    back = fabric_from_yaml(fabric_to_yaml(fabric), file="f.yaml", default_name="x")
    assert sorted(fabric.devices, key=repr) == sorted(back.devices, key=repr)
    assert sorted(fabric.links, key=repr) == sorted(back.links, key=repr)
    assert "hgx-h100" in list_designs()


def test_one_wiring_keeps_the_ports_of_both_ends() -> None:
    there = Link("leaf0", "spine0", "ib", 50.0, multiplicity=2, GBps_source="read", ports=(35, 36))
    back = replace(there, src="spine0", dst="leaf0", ports=(31, 2))
    fabric = Fabric("f", (Device("leaf0", "leaf"), Device("spine0", "spine")), (there, back))
    content = fabric_to_yaml(fabric)
    assert "ports: [[35, 36], [31, 2]]" in content
    assert content.count("between:") == 1
    same(fabric, fabric_from_yaml(content, file="f.yaml", default_name="x"))


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ("[[1, 2, 3], []]", "2 port numbers, one a cable"),
        ("[[1], [2]]", "2 port numbers, one a cable"),
        ("[[1, two], [3, 4]]", "2 port numbers, one a cable"),
        ("[1, 2]", "two lists of ports"),
        ("[[1, 2]]", "two lists of ports"),
    ],
)
def test_ports_that_do_not_fit_the_cables_are_refused(ports: str, message: str) -> None:
    there = Link("leaf0", "spine0", "ib", 50.0, multiplicity=2, GBps_source="read", ports=(1, 2))
    fabric = Fabric("f", (Device("leaf0", "leaf"), Device("spine0", "spine")), (there,))
    content = fabric_to_yaml(fabric).replace("[[1, 2], []]", ports)
    with pytest.raises(UsageError, match=message) as error:
        fabric_from_yaml(content, file="f.yaml", default_name="x")
    assert "f.yaml:" in str(error.value)


def test_a_fabric_too_large_for_a_file_is_refused() -> None:
    devices = tuple(Device(f"{'x' * 9000}{i}", "gpu") for i in range(1000))
    with pytest.raises(UsageError, match="by reference"):
        fabric_to_yaml(Fabric("f", devices, ()))


def test_equal_hosts_are_written_once_and_damage_to_one_is_kept() -> None:
    fabric = load_fabric("superpod-h100-1su")
    hurt = next(
        link for link in fabric.links if link.src == "n3/gpu0" and link.link_class == "nvlink"
    )
    broken = fabric.with_links({(hurt.src, hurt.dst): [replace(hurt, health=0.5)]})
    for one in (fabric, broken):
        content = fabric_to_yaml(one)
        assert len(content) < 400_000
        back = fabric_from_yaml(content, file="f.yaml", default_name="x")
        assert sorted(one.devices, key=repr) == sorted(back.devices, key=repr)
        assert sorted(one.links, key=repr) == sorted(back.links, key=repr)
        assert back.hosts == one.hosts
