"""``clusterlab hunt``: measure what tells most, round after round, until what is at fault has a name."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.bench.control import Control
from clusterlab.bench.host_probe import clock_rate, cores_free, ports_up
from clusterlab.bench.messages import Messenger, turns_of
from clusterlab.bench.opening import current_device
from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import ClusterlabError, ExitCode
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import make_point, make_row
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.launch.roll_call import Record, roll_call
from clusterlab.records.documents import write_findings
from clusterlab.records.run_dir import RunDir, end_attempt, open_run, start_attempt, utc_text
from clusterlab.runs.directory import given_or_new_run
from clusterlab.runs.finish import end_run
from clusterlab.runs.hunting.calls import Answer as Answered
from clusterlab.runs.hunting.calls import (
    Line,
    answers_to,
    do_order,
    end_orders,
    give_order,
    next_order,
)
from clusterlab.runs.hunting.file import hunt_findings, read_hunt
from clusterlab.runs.hunting.plan import HuntConfig, Ready, Said, check_one_host, ready
from clusterlab.runs.hunting.told import HuntTeller, tell_hunt, write_hunt, write_refused
from clusterlab.runs.local_ranks import check_typed
from clusterlab.runs.on_ranks import Work, run_on_ranks
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S, START_S
from clusterlab.runs.whereabouts import Whereabouts, call_whereabouts
from clusterlab.verdict.localise.hunt import Budget, hunt
from clusterlab.verdict.localise.informative import pool_of
from clusterlab.verdict.localise.types import PORT_DOWN, Probe, Round, Seen

if TYPE_CHECKING:
    from torch.distributed import Store

CODES = {"healthy": ExitCode.OK, "named": ExitCode.FINDING, "open": ExitCode.NO_VERDICT}

_FREE = 0.8
"""A host with this share of its cores free is idle: daemons, and the ranks' own threads, take some."""

_CLOCK_NOISE = 0.2
"""Two cores of one kind compute alike within this: boost, and what their sibling threads do."""


def run_hunt(config: HuntConfig, *, ranks: int | None, name: str | None, as_json: bool) -> int:
    """Hunt; the exit code: 0 healthy, 1 something is named, 3 neither."""
    check_typed(ranks, config.backend)
    return run_on_ranks(
        Work(
            backend=config.backend,
            ranks=ranks,
            check=lambda _size: None,
            open_run=lambda: given_or_new_run(name or "hunt"),
            rank_main=lambda identity, store, path: _rank(identity, store, path, config),
            tell_end=partial(_tell_end, as_json=as_json),
            alone=partial(check_one_host, config.backend),
        )
    )


def _tell_end(path: Path, code: int, message: str | None, *, as_json: bool) -> int:
    from clusterlab.runs.report_page import write_page

    refused = read_hunt(path) is None and code == ExitCode.NO_VERDICT
    if refused and message:
        write_refused(path, message)
    if not tell_hunt(path, as_json=as_json):
        end_run(path, code, message)
        return code
    run = end_attempt(open_run(path), code)
    # With "no verdict" at the end of a hunt rank 0 has not failed: it has no name to give.
    if message and (refused or code != ExitCode.NO_VERDICT):
        print(f"clusterlab: {message}", file=sys.stderr)
    write_findings(run.path, hunt_findings(run.path) or ())
    print(f"clusterlab: report {write_page(run)}", file=sys.stderr, flush=True)
    return code


def _rank(identity: RankIdentity, store: Store, path: Path, config: HuntConfig) -> int:
    """One rank's part; rank 0 also thinks."""
    import torch.distributed as dist

    with Watchdog(identity, START_S, None) as watchdog, watchdog.guard(0, "start of the hunt"):
        whereabouts = call_whereabouts(identity, store, config.backend, timeout_s=JOIN_TIMEOUT_S)
        init_process_group(
            identity, store, config.backend, timeout_s=max(JOIN_TIMEOUT_S, 4 * config.deadline_s)
        )
        if (
            config.backend == "nccl"
        ):  # its communicator is made by a call of all ranks, not of a pair
            Control(current_device(), identity.world_size).barrier()
    part, line = _Part(config, identity.rank), Line(store, identity, config.deadline_s)
    opened = _open_together(line, path, config, whereabouts)
    code = int(_follow(line, part) if opened is None else _lead(line, config, part, *opened))
    # What was given up leaves a group that cannot be ended in order.
    if not part.messenger.broken and not part.messenger.stuck:
        dist.destroy_process_group()
    elif part.messenger.stuck and identity.rank != 0:
        sys.stderr.flush()
        os._exit(code)  # a kernel that waits for a dead link keeps the process for ever
    return code


def _open_together(
    line: Line, path: Path, config: HuntConfig, whereabouts: Whereabouts | None
) -> tuple[RunDir, Ready] | None:
    """Rank 0 opens the run and works out the field while the others wait; it refuses for all."""
    identity = line.identity
    opened: list[tuple[RunDir, Ready]] = []

    def open_or_refuse(records: Sequence[Record]) -> ClusterlabError | None:
        assert whereabouts is not None, "rank 0 knows where all ranks are"
        placement = whereabouts.placement
        said = [Said(r["interface"], r["ports"]) for r in records]
        try:
            run = start_attempt(
                open_run(path),
                configuration={**config.to_json(), "world_size": placement.world_size},
            )
            found = ready(config, placement, said)
            found.model.write(run.path)
        except ClusterlabError as error:
            return error
        opened.append((run, found))
        return None

    record = {
        "rank": identity.rank,
        "host": identity.host,
        "pid": os.getpid(),
        "interface": _interface(config.backend),
        "ports": ports_up() if identity.local_rank == 0 else {},
    }
    roll_call(line.store, identity, "hunt/said", record, open_or_refuse, timeout_s=JOIN_TIMEOUT_S)
    return opened[0] if opened else None


def _interface(backend: str) -> str | None:
    if backend != "gloo":
        return None
    return os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0] or None


class _Part:
    """What this rank does of a probe."""

    def __init__(self, config: HuntConfig, rank: int) -> None:
        self._config, self._rank = config, rank
        self.messenger = Messenger(config.size_bytes, config.deadline_s)

    def do(self, probe: Probe) -> Answered:
        """Plain data for rank 0."""
        if probe.way == "host":
            return {"rate": cores_free()}
        if probe.way == "clock":
            return {"rate": clock_rate()}
        if probe.way == "port":
            return {"ports": ports_up()}
        (first, second), rank = probe.ranks, self._rank
        both = probe.way == "send_recv"
        times = self.messenger.times_us(
            second if rank == first else first,
            self._config.calls,
            turns_of(self._config.backend, both=both, first=rank == first),
        )
        return {"times_us": times}


def _follow(line: Line, part: _Part) -> int:
    number = 0
    while (probes := next_order(line, number)) is not None:
        do_order(line, number, probes, part.do)
        number += 1
    return ExitCode.OK


def _lead(line: Line, config: HuntConfig, part: _Part, run: RunDir, on: Ready) -> int:
    """Rank 0: hunt, with all ranks for hands."""
    end = time.monotonic() + config.budget_s
    keeper = _Keeper(run, config)
    number = 0

    def measure(probes: Round) -> list[Seen]:
        nonlocal number
        give_order(line, number, probes)
        do_order(line, number, probes, part.do)
        answers = answers_to(line, number, probes)
        number += 1
        both = zip(probes, answers, strict=True)
        return [keeper.seen(probe, answer, on.ports) for probe, answer in both]

    teller = HuntTeller(on, config)
    try:
        found = hunt(
            on.field,
            measure,
            Budget(config.rounds, lambda: time.monotonic() > end),
            first=on.first,
            pool=pool_of(on.field, within=config.backend == "nccl"),
            sure=config.sure,
            told=teller.told,
            rates_known=on.known,
        )
    finally:
        end_orders(line, number)
        keeper.close()
    write_hunt(run.path, found, on, config)
    return CODES[found.outcome]


class _Keeper:
    """Turns answers into what was seen, and keeps a row of each message that came through."""

    def __init__(self, run: RunDir, config: HuntConfig) -> None:
        self._run, self._config = run, config
        self._rows = run.writer()
        self._kept: set[Probe] = set()

    def close(self) -> None:
        """No more rows."""
        self._rows.close()

    def seen(self, probe: Probe, answers: Mapping[int, Answered], ports: Mapping[int, str]) -> Seen:
        """What came of a probe, by the answers of its ranks."""
        first = answers[probe.ranks[0]]
        if probe.way == "host":
            free = float(first["rate"])
            return Seen(1.0 if free >= _FREE else free, 1.0)
        if probe.way == "clock":
            return Seen(float(first["rate"]), None, _CLOCK_NOISE)
        if probe.way == "port":
            up = first["ports"].get(ports[probe.ranks[1]], True)
            return Seen(1.0 if up else PORT_DOWN, 1.0)
        times = [answers[rank]["times_us"] for rank in probe.ranks]
        if any(t is None for t in times):
            return Seen(0.0)
        turns = [
            [max(each) for each in zip(*(times[i][k] for i in takers), strict=True)]
            for k, takers in enumerate(self._takers(probe))
        ]
        self._row(probe, turns)
        rates = [self._config.size_bytes / statistics.median(turn) / 1e3 for turn in turns]
        noise = max(map(_noise, turns))
        return Seen(rates[0], None, noise, rates[1] if len(rates) > 1 else None)

    def _takers(self, probe: Probe) -> list[list[int]]:
        """Of each turn which of the two ranks receive in it."""
        both = probe.way == "send_recv"
        plans = [turns_of(self._config.backend, both=both, first=f) for f in (True, False)]
        return [[i for i in (0, 1) if "receive" in plans[i][turn]] for turn in range(len(plans[0]))]

    def _row(self, probe: Probe, turns: list[list[float]]) -> None:
        """Of a pair that is measured again, hunt.json has the rest."""
        if probe in self._kept:
            return
        self._kept.add(probe)
        # Both ways, in turn or at once: the time of an exchange, over the directions taken after one another.
        times_us = [sum(each) / len(turns) for each in zip(*turns, strict=True)]
        ordered = sorted(times_us)
        mean = statistics.fmean(times_us)
        measured = Measurement(
            iterations=len(times_us),
            warmup=1,
            time_us_loop=mean,
            time_us_p50=statistics.median(times_us),
            time_us_min=ordered[0],
            time_us_max=ordered[-1],
            time_us_p95=ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
            cv=statistics.pstdev(times_us) / mean,
            wrong=None,
            samples=len(times_us),
        )
        point = make_point(
            probe.way, self._config.size_bytes, DTYPES["uint8"], 2, ranks=probe.ranks
        )
        self._rows.append(
            make_row(
                point,
                measured,
                None,
                backend=self._config.backend,
                attempt=self._run.attempt,
                time_utc=utc_text(datetime.now(UTC)),
            )
        )


def _noise(times_us: list[float]) -> float:
    """The relative error of their median."""
    middle = statistics.median(times_us)
    spread = statistics.median(abs(t - middle) for t in times_us) * 1.4826
    return float(spread / middle / len(times_us) ** 0.5)
