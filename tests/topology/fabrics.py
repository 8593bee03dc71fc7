"""Small fabrics for tests."""

from __future__ import annotations

from hypothesis import strategies as st

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link


def line(*rates_GBps: float, latency_us: float | None = 1.0) -> Fabric:
    """gpu0 - leaf0 - leaf1 … - gpu1, one link per rate, both ways."""
    leaves = [f"leaf{i}" for i in range(len(rates_GBps) - 1)]
    names = ["gpu0", *leaves, "gpu1"]
    devices = [Device(n, "gpu" if n.startswith("gpu") else "leaf") for n in names]
    links = []
    for a, b, rate in zip(names, names[1:], rates_GBps, strict=False):
        links += [
            Link(a, b, "ib", rate, latency_us),
            Link(b, a, "ib", rate, latency_us),
        ]
    return Fabric("line", tuple(devices), tuple(links))


rates = st.floats(min_value=0.1, max_value=1000)


@st.composite
def leaf_spine(draw: st.DrawFn, *, gpus: int | None = None) -> Fabric:
    """One GPU per host; leaves with some hosts each; spines that all leaves reach at random rates."""
    n = gpus or draw(st.integers(2, 10))
    leaves = draw(st.integers(1, 3))
    spines = draw(st.integers(1, 3))
    devices = [Device(f"h{i}/gpu", "gpu", host=f"h{i}") for i in range(n)]
    devices += [Device(f"leaf{i}", "leaf") for i in range(leaves)]
    devices += [Device(f"spine{i}", "spine") for i in range(spines)]
    pairs = [(f"h{i}/gpu", f"leaf{i % leaves}") for i in range(n)]
    pairs += [(f"leaf{i}", f"spine{j}") for i in range(leaves) for j in range(spines)]
    links = []
    for a, b in pairs:
        rate = draw(rates)
        latency = draw(st.one_of(st.none(), st.floats(0, 20)))
        links += [Link(x, y, "ib", rate, latency) for x, y in ((a, b), (b, a))]
    return Fabric("leaf-spine", tuple(devices), tuple(links))
