"""Networks for tests of exporters."""

from __future__ import annotations

from hypothesis import strategies as st

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link, LinkClass


def both(a: str, b: str, link_class: LinkClass, GBps: float | None, **more: object) -> list[Link]:
    """A cable, both directions."""
    return [Link(x, y, link_class, GBps, **more) for x, y in ((a, b), (b, a))]  # type: ignore[arg-type]


def rails(
    *,
    units: int = 2,
    hosts: int = 2,
    gpus: int = 2,
    spines: int = 2,
    latency_us: float | None = 1.0,
) -> Fabric:
    """Hosts of GPUs on an NVSwitch, a NIC per GPU on a leaf per rail and unit, spines above all leaves."""
    devices: list[Device] = []
    links: list[Link] = []
    for h in range(units * hosts):
        host = f"n{h}"
        devices.append(Device(f"{host}/nvswitch0", "nvswitch", host=host))
        for g in range(gpus):
            devices += [
                Device(f"{host}/gpu{g}", "gpu", host=host, model="H100-SXM5-80GB", numa=g % 2),
                Device(f"{host}/nic{g}", "nic", host=host, rail=g),
            ]
            links += both(
                f"{host}/gpu{g}", f"{host}/nvswitch0", "nvlink", 20.0, multiplicity=18,
                latency_us=latency_us,
            )  # fmt: skip
            links += both(f"{host}/gpu{g}", f"{host}/nic{g}", "pcie", 48.0, latency_us=latency_us)
            leaf = f"leaf{h // hosts * gpus + g}"
            links += both(f"{host}/nic{g}", leaf, "ib", 50.0, latency_us=latency_us)
    leaves = [f"leaf{i}" for i in range(units * gpus)]
    devices += [Device(leaf, "leaf", ports=64) for leaf in leaves]
    devices += [Device(f"spine{s}", "spine") for s in range(spines)]
    for leaf in leaves:
        for s in range(spines):
            links += both(leaf, f"spine{s}", "ib", 25.0, latency_us=latency_us)
    return Fabric("rails", tuple(devices), tuple(links))


@st.composite
def trees(draw: st.DrawFn) -> Fabric:
    """Hosts known by name below leaves; each switch stands below one of the tier above, or is a root."""
    tiers = [[f"leaf{i}" for i in range(draw(st.integers(1, 5)))]]
    links: list[Link] = []
    for word in ("spine", "core"):
        most = draw(st.integers(0, 3))
        above: list[str] = []
        for name in tiers[-1]:
            number = draw(st.integers(0, most))
            if number:
                above.append(f"{word}{number}")
                links += both(name, above[-1], "network", None)
        tiers.append(list(dict.fromkeys(above)))
    hosts = []
    for leaf in tiers[0]:
        for _ in range(draw(st.integers(1, 3))):
            hosts.append(Device(f"h{len(hosts)}", "host", host=f"h{len(hosts)}"))
            links += both(hosts[-1].name, leaf, "network", None)
    switches = [
        Device(name, kind)
        for kind, names in zip(SWITCH_KINDS, tiers, strict=True)
        for name in names
    ]
    return Fabric("tree", (*hosts, *switches), tuple(links))
