"""Does the lab do what its fabric says? Every two NICs measured by TCP, against the design."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from clusterlab.core.errors import DeadlineError
from clusterlab.lab.commands import module_environment, python_module
from clusterlab.lab.fabric_of_lab import fabric_of
from clusterlab.lab.faults import broken_now
from clusterlab.lab.labs import Lab, enter_command
from clusterlab.lab.pair_paths import PairPath, pair_paths, rounds
from clusterlab.lab.readiness import Progress, silent
from clusterlab.topology.failures.breaking import break_fabric

TOLERANCE = 0.10


@dataclass(frozen=True, slots=True)
class PairRate:
    """What a pair got. ``measured_GBps`` is 0 where nothing arrived."""

    path: PairPath
    measured_GBps: float

    def is_off(self, tolerance: float = TOLERANCE) -> bool:
        """Whether it is farther from the design than ``tolerance``, a share of the design's rate."""
        return abs(self.measured_GBps - self.path.GBps) > tolerance * self.path.GBps

    def to_json(self, tolerance: float = TOLERANCE) -> dict[str, Any]:
        """Plain data."""
        return {
            "src": f"{self.path.src.node}/{self.path.src.name}",
            "dst": f"{self.path.dst.node}/{self.path.dst.name}",
            "cables": [name for name, _ in self.path.cables],
            "design_GBps": self.path.GBps,
            "measured_GBps": self.measured_GBps,
            "off": self.is_off(tolerance),
        }


def check_lab(
    lab: Lab, *, tolerance: float = TOLERANCE, seconds: float = 0.5, progress: Progress = silent
) -> list[PairRate]:
    """Measure every ordered pair of NICs of different nodes, those together that share no cable.

    A pair that is off is measured once more, alone: the machine's cores may have been busy. Raises
    UsageError for a lab without a fabric, DeadlineError for a node that is off or does not answer.
    """
    broken = broken_now(lab)
    found = fabric_of(lab.layout, lab.spec)
    fabric = break_fabric(found.fabric, broken) if broken else found.fabric
    network = found.network(broken)
    paths = pair_paths(fabric, network, lab.spec.routing)
    turns = rounds(paths)
    measured: dict[str, PairRate] = {}
    with _probes(
        lab, {n: [nic.address for nic in network.nics_of(n)] for n in fabric.hosts}
    ) as probes:
        for number, together in enumerate(turns, start=1):
            progress(f"round {number} of {len(turns)}: {len(together)} pairs of NICs")
            measured |= {rate.path.name: rate for rate in probes.measure(together, seconds)}
        for rate in [r for r in measured.values() if r.is_off(tolerance)]:
            progress(f"once more, alone: {rate.path.name}")
            again = probes.measure([rate.path], 2 * seconds)[0]
            if not again.is_off(tolerance):
                measured[rate.path.name] = again
    return [measured[path.name] for path in paths]


def suspects(rates: Sequence[PairRate], tolerance: float = TOLERANCE) -> list[str]:
    """The cables that every pair that is off crosses, and no other pair does in the same direction."""
    off = [set(r.path.cables) for r in rates if r.is_off(tolerance)]
    fine = [r.path.cables for r in rates if not r.is_off(tolerance)]
    if not off:
        return []
    common = set.intersection(*off) - {cable for cables in fine for cable in cables}
    return sorted({name for name, _ in common})


class _Probes:
    """A probe in every node."""

    def __init__(self, processes: dict[str, subprocess.Popen[str]]) -> None:
        self.processes = processes
        self.ports: dict[str, int] = {}
        for node in processes:
            self.ports |= self._answer(node)

    def measure(self, together: Sequence[PairPath], seconds: float) -> list[PairRate]:
        nodes = sorted({nic.node for path in together for nic in (path.src, path.dst)})
        for node in nodes:
            send = [p for p in together if p.src.node == node]
            receive = [p for p in together if p.dst.node == node]
            request = {
                "send": [[p.src.address, p.dst.address, self.ports[p.dst.address]] for p in send],
                "receive": [[p.src.address, p.dst.address] for p in receive],
                "seconds": seconds,
            }
            stdin = self.processes[node].stdin
            assert stdin is not None
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        received: dict[str, float] = {}
        for node in nodes:
            rates = self._answer(node)["received"]
            mine = [p for p in together if p.dst.node == node]
            received |= {p.name: rate or 0.0 for p, rate in zip(mine, rates, strict=True)}
        return [PairRate(path, received[path.name]) for path in together]

    def _answer(self, node: str) -> dict[str, Any]:
        stdout = self.processes[node].stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise DeadlineError(
                "the probe ended", where=node, fix="is the node up? clusterlab lab status"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def _probes(lab: Lab, addresses: dict[str, list[str]]) -> Iterator[_Probes]:
    with ExitStack() as stack:
        processes = {}
        for node, mine in addresses.items():
            command = python_module("clusterlab.lab.probe", *mine)
            process = subprocess.Popen(
                enter_command(lab, command, node=node),
                env=module_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(_end, process)
            processes[node] = process
        yield _Probes(processes)


def _end(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.terminate()
    process.wait(timeout=10)
