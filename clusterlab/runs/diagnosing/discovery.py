"""``clusterlab topo discover``: this machine, or in a job every node's, as one fabric."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.core.errors import ClusterlabError, ExitCode, UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.join import arrive
from clusterlab.launch.roll_call import Record, rank_words
from clusterlab.records.target import write_target
from clusterlab.runs.diagnosing.together import report_together
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.discover.facts import MachineFacts
from clusterlab.topology.discover.facts_json import machine_from_json
from clusterlab.topology.discover.join import join_machines
from clusterlab.topology.discover.machine import read_machine
from clusterlab.topology.importing.imported import Imported

_BAD = (Severity.ERROR, Severity.FATAL)


@dataclass(frozen=True, slots=True)
class DiscoverOptions:
    """What was typed. ``output`` takes the fabric, ``facts`` what this one machine's /sys and NVML say,
    ``ibnetdiscover`` is the switches' listing, ``deadline_s`` how long nodes wait for each other.
    """

    output: Path | None = None
    facts: Path | None = None
    ibnetdiscover: Path | None = None
    deadline_s: float = 60.0


Show = Callable[[Imported], None]
"""Prints what was found."""


def run_discover(options: DiscoverOptions, show: Show) -> int:
    """Look, join, write and ``show``; the exit code. In a job one rank does so for all nodes."""
    end = time.monotonic() + options.deadline_s
    network = _network(options.ibnetdiscover)
    arrival = arrive(os.environ, timeout_s=options.deadline_s)
    if arrival is None or arrival.identity.world_size == 1:
        facts = read_machine(arrival.identity.host if arrival else _node_name())
        if arrival is not None:
            arrival.leave()
        if options.facts is not None:
            write_target(options.facts, (json.dumps(facts.to_json(), indent=1) + "\n").encode())
        return _deliver(join_machines([facts], network), options, show)
    if options.facts is not None:
        raise UsageError(
            "--facts in a job of several tasks",
            expected="one machine",
            fix="without it the nodes are joined; or run it with srun --ntasks=1 --nodelist=NODE",
        )

    def report(records: Sequence[Record], missing: Sequence[int]) -> int:
        return _report(records, missing, network, options, show)

    # One look a node: its other tasks would see the same again.
    looks = arrival.identity.local_rank == 0
    record = _record(arrival.identity, read_machine(arrival.identity.host) if looks else None)
    return report_together(arrival, "discover", record, report, end=end)


def _node_name() -> str | None:
    """What Slurm calls this node; None outside a job."""
    return os.environ.get("SLURMD_NODENAME") if os.environ.get("SLURM_JOB_ID") else None


def _record(identity: RankIdentity, facts: MachineFacts | None) -> Record:
    return {
        "rank": identity.rank,
        "host": identity.host,
        "pid": os.getpid(),
        "machine": None if facts is None else facts.to_json(),
    }


def _report(
    records: Sequence[Record],
    missing: Sequence[int],
    network: Imported | None,
    options: DiscoverOptions,
    show: Show,
) -> int:
    """Join what came; an error is printed here and told to every rank by its code."""
    try:
        joined = join_machines(machines_of(records), network)
        joined = replace(joined, findings=(*missing_finding(missing), *joined.findings))
        code = _deliver(joined, options, show)
    except ClusterlabError as error:
        sys.stderr.write(f"clusterlab: {error}\n")
        return int(error.exit_code)
    return int(ExitCode.DEADLINE) if missing else code


def machines_of(records: Sequence[Record]) -> list[MachineFacts]:
    """The machines among the ranks' records, in rank order: one of each host, whoever of it looked."""
    found: dict[str, MachineFacts] = {}
    for record in records:
        if record["machine"] is not None and record["host"] not in found:
            where = f"rank {record['rank']} on {record['host']}"
            found[record["host"]] = machine_from_json(record["machine"], where=where)
    return list(found.values())


def missing_finding(missing: Sequence[int]) -> list[Finding]:
    """The ranks that did not come, as a finding."""
    if not missing:
        return []
    return [
        Finding(
            "node_missing",
            Severity.FATAL,
            (f"{rank_words(missing)} did not arrive: their nodes are not in this fabric",),
            "see what these tasks printed; run again when their nodes answer",
            ranks=tuple(missing),
        )
    ]


def _network(listing: Path | None) -> Imported | None:
    if listing is None:
        return None
    from clusterlab.topology.importing.files import read_files

    network = read_files([listing])
    if network.kind != "ibnetdiscover":
        raise UsageError(
            f"a file of kind {network.kind}",
            where=str(listing),
            expected="the output of ibnetdiscover",
        )
    return network


def _deliver(joined: Imported, options: DiscoverOptions, show: Show) -> int:
    if options.output is not None:
        write_target(options.output, fabric_to_yaml(joined.fabric).encode())
    show(joined)
    return int(
        ExitCode.FINDING if any(f.severity in _BAD for f in joined.findings) else ExitCode.OK
    )
