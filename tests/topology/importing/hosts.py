"""Made-up hosts with a PCI tree and NVLink, for round trips."""

from __future__ import annotations

from hypothesis import strategies as st

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.pci_tree import both_ways
from clusterlab.topology.parts import Device, Link


@st.composite
def hosts(draw: st.DrawFn) -> Fabric:
    """One host ``n0``: NUMA domains, host bridges, switches one or two deep, GPUs and NICs below them."""
    kinds = draw(st.lists(_domains(), min_size=1, max_size=3))
    made = _Made()
    for number, bridges in enumerate(kinds):
        cpu = made.add("cpu", None, number)
        for parts in bridges:
            bridge = made.add("host_bridge", cpu, number)
            for part in parts:
                made.switched(part, bridge, number)
    cpus = [d.name for d in made.devices if d.kind == "cpu"]
    made.links += [k for i, a in enumerate(cpus) for b in cpus[:i] for k in both_ways(a, b, "upi")]
    gpus = [d.name for d in made.devices if d.kind == "gpu"]
    made.links += draw(_nvlinks(gpus, made))
    ends = [d for kind in ("gpu", "nic") for d in made.devices if d.kind == kind]
    rest = [d for d in made.devices if d.kind not in {"gpu", "nic"}]
    return Fabric("n0", (*ends, *rest), tuple(made.links))


def _domains() -> st.SearchStrategy[list[list[list[list[str]]]]]:
    """Host bridges of a domain; below each its parts; a part: PIX groups under one outer switch."""
    end = st.sampled_from(["gpu", "nic"])
    part = st.lists(st.lists(end, min_size=1, max_size=3), min_size=1, max_size=2)
    return st.lists(st.lists(part, min_size=1, max_size=2), min_size=1, max_size=2)


class _Made:
    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.links: list[Link] = []

    def add(self, kind: str, above: str | None, number: int) -> str:
        name = f"n0/{kind}{sum(d.kind == kind for d in self.devices)}"
        numa = None if kind == "nic" else number
        self.devices.append(Device(name, kind, host="n0", numa=numa))  # type: ignore[arg-type]
        if above is not None:
            self.links += both_ways(name, above, "pcie")
        return name

    def switched(self, part: list[list[str]], above: str, number: int) -> None:
        if sum(map(len, part)) == 1:
            self.add(next(kind for group in part for kind in group), above, number)
            return
        outer = self.add("pcie_switch", above, number)
        for group in part:
            switch = outer if len(part) == 1 else self.add("pcie_switch", outer, number)
            for kind in group:
                self.add(kind, switch, number)


@st.composite
def _nvlinks(draw: st.DrawFn, gpus: list[str], made: _Made) -> list[Link]:
    wiring = draw(st.sampled_from(["none", "switch", "mesh"]))
    if wiring == "switch" and len(gpus) > 3:
        switch = made.add("nvswitch", None, 0)
        bundles = draw(st.lists(st.integers(9, 18), min_size=len(gpus), max_size=len(gpus)))
        return [
            link
            for gpu, n in zip(gpus, bundles, strict=True)
            for link in both_ways(gpu, switch, "nvlink", multiplicity=n)
        ]
    if wiring == "mesh" and len(gpus) > 1:
        most = 18 // (len(gpus) - 1)
        pairs = [(a, b) for i, a in enumerate(gpus) for b in gpus[:i]]
        counts = draw(st.lists(st.integers(0, most), min_size=len(pairs), max_size=len(pairs)))
        return [
            link
            for (a, b), n in zip(pairs, counts, strict=True)
            if n
            for link in both_ways(a, b, "nvlink", multiplicity=n)
        ]
    return []
