"""AMD GPUs and their xGMI links as the kernel's kfd tells them in /sys."""

from __future__ import annotations

import re
from pathlib import Path

from clusterlab.topology.discover.facts import GpuFact, XgmiFact
from clusterlab.topology.discover.sysfs import entries, read_name, read_text

_XGMI = 11  # HSA_IOLINK_TYPE_XGMI, in io_links/*/properties
_LINE = re.compile(r"^([a-z_0-9]+) ([0-9]{1,20})$", re.MULTILINE)


def read_kfd(sys: Path) -> tuple[tuple[GpuFact, ...], tuple[XgmiFact, ...]]:
    """The GPUs that kfd shows, by node number, and the xGMI links between them; none without kfd."""
    gpus: dict[int, GpuFact] = {}
    links: list[tuple[int, int, int]] = []
    for folder in entries(sys / "class/kfd/kfd/topology/nodes", "[0-9]*"):
        properties = _properties(folder / "properties")
        if not properties.get("simd_count") or not folder.name.isdigit():
            continue  # a CPU
        node = int(folder.name)
        gpus[node] = _gpu(node, properties, read_name(folder / "name"))
        for link in entries(folder / "io_links", "[0-9]*") + entries(
            folder / "p2p_links", "[0-9]*"
        ):
            told = _properties(link / "properties")
            if told.get("type") == _XGMI and "node_to" in told:
                links.append((node, told["node_to"], told.get("max_bandwidth", 0)))
    between = {
        (a, b): XgmiFact(gpus[a].bus_id, gpus[b].bus_id, rate / 1000 or None)  # MB/s
        for a, b, rate in links
        if a in gpus and b in gpus and a != b
    }
    return tuple(gpus.values()), tuple(between.values())


def _gpu(node: int, properties: dict[str, int], name: str | None) -> GpuFact:
    place = properties.get("location_id", 0)  # bus << 8 | device << 3 | function
    function = f"{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
    target = properties.get("gfx_target_version", 0)  # 90402 is gfx942
    unique = properties.get("unique_id")
    return GpuFact(
        f"{properties.get('domain', 0) & 0xFFFFFFFF:04x}:{function}",
        "amd",
        uuid=f"GPU-{unique:016x}" if unique else None,
        name=name,
        capability=(target // 10000, target // 100 % 100, target % 100) if target else None,
        shown=True,
        unit=node,
    )


def _properties(file: Path) -> dict[str, int]:
    return {key: int(value) for key, value in _LINE.findall(read_text(file) or "")}
