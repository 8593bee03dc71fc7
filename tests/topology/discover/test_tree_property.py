"""On any PCI tree the fabric's matrix is what the paths say, pair by pair."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.topology.discover.assemble import fabric_from_machine
from clusterlab.topology.discover.facts import GpuFact, MachineFacts, NicFact, PciFact
from clusterlab.topology.host import NumaDomain
from clusterlab.topology.matrix import topo_matrix

DOMAINS = 3


@dataclass(frozen=True)
class Switch:
    """Ports, each with the functions of one card (their number) or another switch."""

    ports: tuple[int | Switch, ...]


cards = st.integers(1, 3)
below_port = st.recursive(
    cards,
    lambda inner: st.builds(Switch, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=6,
)
machines = st.lists(
    st.tuples(st.integers(0, DOMAINS - 1), st.lists(below_port, min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)


def paths_below(what: int | Switch, above: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths of all functions; every bridge and card is called by its way from the root."""
    here = ".".join(above[1:]) or above[0]
    if isinstance(what, int):
        return [(*above, f"{here}/card.{function}") for function in range(what)]
    up = f"{here}/up"
    return [
        path
        for i, port in enumerate(what.ports)
        for path in paths_below(port, (*above, up, f"{up}/port{i}"))
    ]


def functions(machine: list[tuple[int, list[int | Switch]]]) -> list[tuple[tuple[str, ...], int]]:
    """Every function's path and NUMA domain."""
    return [
        (path, numa)
        for r, (numa, root_ports) in enumerate(machine)
        for p, what in enumerate(root_ports)
        for path in paths_below(what, (f"pci{r:04x}:00", f"{r:04x}:port{p}"))
    ]


def expected(a: tuple[tuple[str, ...], int], b: tuple[tuple[str, ...], int]) -> str:
    """nvidia-smi's word by steps alone: through one switch a device is at most four steps away."""
    (path_a, numa_a), (path_b, numa_b) = a, b
    shared = [x for x, y in zip(path_a, path_b, strict=False) if x == y]
    steps = len(path_a) + len(path_b) - 2 * len(shared)
    if not shared:
        return "NODE" if numa_a == numa_b else "SYS"
    if len(shared) == 1:
        return "PHB"
    return "PIX" if steps <= 4 else "PXB"


@given(machines)
@settings(deadline=None)
def test_the_matrix_of_the_fabric_is_the_distance_of_every_pair_of_paths(
    machine: list[tuple[int, list[int | Switch]]],
) -> None:
    ends = functions(machine)
    names = {f"{i:04x}:00:00.0": end for i, end in enumerate(ends)}
    facts = MachineFacts(
        "n0",
        domains=tuple(NumaDomain(i, (i,), None) for i in range(DOMAINS)),
        pci=tuple(
            PciFact(bus, (*path[:-1], bus), numa=numa) for bus, (path, numa) in names.items()
        ),
        gpus=tuple(GpuFact(bus, "nvidia") for i, bus in enumerate(names) if i % 2 == 0),
        nics=tuple(NicFact(f"mlx5_{i}", bus, rdma=True) for i, bus in enumerate(names) if i % 2),
    )
    cells = topo_matrix(fabric_from_machine(facts).fabric, "n0")
    for i, a in enumerate(cells.devices):
        for j, b in enumerate(cells.devices):
            if i != j:
                assert a.pci and b.pci
                assert cells.cells[i][j] == expected(names[a.pci], names[b.pci])
