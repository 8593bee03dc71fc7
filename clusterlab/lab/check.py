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
from clusterlab.lab.spec import node_index, node_names
from clusterlab.topology.failures.breaking import break_fabric

TOLERANCE = 0.10
_TOUCHED = 1e-6


@dataclass(frozen=True, slots=True)
class PairRate:
    """What a pair got. ``measured_GBps`` is 0 where nothing arrived, and _TOUCHED where a connection came
    about that should not have.
    """

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
    lab: Lab,
    nodes: Sequence[str] = (),
    *,
    tolerance: float = TOLERANCE,
    seconds: float = 0.5,
    progress: Progress = silent,
) -> list[PairRate]:
    """Measure every ordered pair of NICs of different nodes (those of ``nodes``, where some are named).

    Pairs that share no cable are measured together. Those that are off are measured for longer, and at
    last alone: the machine's cores may have been busy. Raises UsageError for a lab without a fabric or
    a node that it has not, DeadlineError for a node that is off or does not answer.
    """
    wanted = set(nodes or node_names(lab.spec))
    for node in nodes:
        node_index(lab.spec, node)
    broken = broken_now(lab)
    found = fabric_of(lab.layout, lab.spec)
    fabric = break_fabric(found.fabric, broken) if broken else found.fabric
    network = found.network(broken)
    paths = [
        path
        for path in pair_paths(fabric, network, lab.spec.routing)
        if {path.src.node, path.dst.node} <= wanted
    ]
    addresses = {node: [nic.address for nic in network.nics_of(node)] for node in wanted}
    measured: dict[str, PairRate] = {}
    with _probes(lab, addresses) as probes:
        for turns, longer in (
            (rounds, 1),
            (rounds, 2),
            (_one_by_one, 2),
        ):
            off = [p for p in paths if p.name not in measured or measured[p.name].is_off(tolerance)]
            for number, together in enumerate(todo := turns(off), start=1):
                progress(f"round {number} of {len(todo)}: {len(together)} pairs of NICs")
                rates = probes.measure(together, longer * seconds)
                measured |= {rate.path.name: rate for rate in rates}
    return [measured[path.name] for path in paths]


def _one_by_one(paths: Sequence[PairPath]) -> list[list[PairPath]]:
    return [[path] for path in paths]


def suspects(rates: Sequence[PairRate], tolerance: float = TOLERANCE) -> list[str]:
    """The cables that every pair that is off crosses, and that no other crosses the same way."""
    off = [r.path.cables for r in rates if r.is_off(tolerance)]
    fine = {cable for r in rates if not r.is_off(tolerance) for cable in r.path.cables}
    if not off:
        return []
    doubtful = [{name for name, up in cables if (name, up) not in fine} for cables in off]
    return sorted(set.intersection(*doubtful))


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
            receive = [p for p in together if p.dst.node == node and p.cables]
            request = {
                "send": [[p.src.address, p.dst.address, self.ports[p.dst.address]] for p in send],
                "receive": [[p.src.address, p.dst.address] for p in receive],
                "seconds": seconds if any(p.cables for p in together) else 0,
            }
            stdin = self.processes[node].stdin
            assert stdin is not None
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        received: dict[str, float] = {}
        for node in nodes:
            answer = self._answer(node)
            mine = [p for p in together if p.dst.node == node and p.cables]
            rates = zip(mine, answer["received"], strict=True)
            received |= {p.name: rate or 0.0 for p, rate in rates}
            sent = [p for p in together if p.src.node == node]
            for path, failed in zip(sent, answer["failed"], strict=True):
                if not path.cables:
                    received[path.name] = 0.0 if failed else _TOUCHED
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
