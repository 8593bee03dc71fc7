"""``clusterlab doctor``: every rank looks, one rank reports on all."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.binding.look import Look, look_from_json
from clusterlab.binding.probe import look_here
from clusterlab.binding.rules import diagnose, exit_code, identity_finding
from clusterlab.binding.table import report_lines
from clusterlab.core.findings import Finding
from clusterlab.launch.identity import IdentityError, single_identity
from clusterlab.launch.join import Arrival, arrive
from clusterlab.launch.roll_call import Record
from clusterlab.runs.together import report_together

_RANK_VARIABLES = ("PMIX_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "RANK")


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What was typed. ``deadline_s``: how long ranks wait for each other."""

    deadline_s: float = 60.0
    as_json: bool = False
    environment: bool = False


def run_doctor(options: DoctorOptions) -> int:
    """Look as one rank, or as the one process that no launcher started; the exit code."""
    end = time.monotonic() + options.deadline_s
    try:
        arrival = arrive(os.environ, timeout_s=options.deadline_s)
    except IdentityError as error:
        return _confused(error, options)
    if arrival is None:
        look = look_here(single_identity(), os.environ, notes=["no launcher made this a rank"])
        return _report([look], [], options)
    look = look_here(arrival.identity, os.environ, notes=arrival.notes)
    return _join(arrival, look, end, options)


def _join(arrival: Arrival, look: Look, end: float, options: DoctorOptions) -> int:
    def report(records: Sequence[Record], missing: Sequence[int]) -> int:
        return _report([look_from_json(r) for r in records], missing, options)

    return report_together(arrival, "doctor", look.to_json(), report, end=end)


def _report(looks: Sequence[Look], missing: Sequence[int], options: DoctorOptions) -> int:
    findings = diagnose(looks, missing)
    _print(looks, missing, findings, options)
    return int(exit_code(findings, missing))


def _confused(error: IdentityError, options: DoctorOptions) -> int:
    """Launchers contradict each other: nobody can be joined; the first process reports on itself."""
    finding = identity_finding(error, socket.gethostname())
    if all(os.environ.get(name, "0") == "0" for name in _RANK_VARIABLES):
        look = look_here(single_identity(), os.environ, notes=["this process cannot be joined"])
        _print([look], [], [finding], options)
    return int(exit_code([finding], []))


def _print(
    looks: Sequence[Look],
    missing: Sequence[int],
    findings: Sequence[Finding],
    options: DoctorOptions,
) -> None:
    if options.as_json:
        text = json.dumps(report_json(len(looks) + len(missing), missing, findings))
    else:
        text = "\n".join(report_lines(looks, missing, findings, environment=options.environment))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def report_json(ranks: int, missing: Sequence[int], findings: Sequence[Finding]) -> dict[str, Any]:
    """What ``--json`` prints."""
    fields = ("code", "severity", "ranks", "evidence", "fix", "caused_by")
    return {
        "ranks": ranks,
        "missing_ranks": list(missing),
        "findings": [{name: f.to_json()[name] for name in fields} for f in findings],
    }
