"""``clusterlab bringup``: every rank times how it comes up, rank 0 reports on all."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.bench.bringup.clock import Marks, process_start_s
from clusterlab.bench.bringup.communicators import repeat_communicators
from clusterlab.bench.bringup.nccl_output import caught_output
from clusterlab.bench.bringup.phases import bring_up
from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.bringup import (
    Bringup,
    InitSplit,
    RankBringup,
    Repeated,
    rank_from_json,
    rank_to_json,
)
from clusterlab.core.errors import ClusterlabError, ExitCode
from clusterlab.formats.nccl_log_init import InitTimings, init_timings
from clusterlab.formats.nccl_log_lines import log_lines
from clusterlab.launch.file_store import meet_in_file
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.join import Arrival, arrive
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import part
from clusterlab.launch.roll_call import roll_call
from clusterlab.runs.local_ranks import backend_here, check_typed, local_world_size

if TYPE_CHECKING:
    from torch.distributed import Store


@dataclass(frozen=True, slots=True)
class _Met:
    """Where this rank met the others, and what they will talk over."""

    identity: RankIdentity
    store: Store
    way: str
    backend: str


@dataclass(frozen=True, slots=True)
class BringupOptions:
    """What was typed. ``repeat``: communicators to make and destroy; ``file``: where ranks meet instead."""

    ranks: int | None = None
    backend: str = "auto"
    repeat: int = 0
    file: Path | None = None
    deadline_s: float = 120.0
    name: str | None = None
    as_json: bool = False


def run_bringup(options: BringupOptions) -> int:
    """Measure as one rank of a launcher, or start local ranks; the exit code."""
    marks = Marks(process_start_s())
    marks.end("start")
    check_typed(options.ranks, options.backend)
    arrival = arrive(os.environ)
    if arrival is None:
        return _local(options, marks)
    identity = arrival.identity
    marks.end("identity")
    if identity.rank == 0:
        for note in arrival.notes:
            print(f"clusterlab: {note}", file=sys.stderr, flush=True)
    try:
        return _launched(options, arrival, marks)
    except ClusterlabError as error:
        here = f"rank {identity.rank} on {identity.host}"
        if not (error.where or "").startswith(here):
            error.where = f"{here}: {error.where}" if error.where else here
        raise


def _launched(options: BringupOptions, arrival: Arrival, marks: Marks) -> int:
    import torch.distributed  # noqa: F401 - it is what is timed

    backend = backend_here(options.backend)
    marks.end("torch")
    timeout_s = options.deadline_s
    if options.file is not None:
        arrival.meeting = meet_in_file(arrival.identity, options.file, timeout_s=timeout_s)
    store = arrival.open_store(timeout_s)
    marks.end("rendezvous")
    assert arrival.meeting is not None, "open_store has met"
    way = arrival.meeting.way
    code = _measure(options, _Met(arrival.identity, store, way, backend), marks)
    arrival.leave()
    return code


def _local(options: BringupOptions, marks: Marks) -> int:
    """Forked ranks: ``start`` and ``torch`` are this process's, ``identity`` is the fork."""
    backend = backend_here(options.backend)
    world_size = local_world_size(options.ranks, backend)

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        marks.end("torch", at_s=process_start_s())
        marks.end("identity")
        if options.file is None:
            store = open_store(options.deadline_s)
            marks.end("rendezvous")
            return _measure(options, _Met(identity, store, "local", backend), marks)
        meeting = meet_in_file(identity, options.file, timeout_s=options.deadline_s)
        marks.end("rendezvous")
        met = _Met(identity, meeting.store, meeting.way, backend)
        code = _measure(options, met, marks)
        part(identity, meeting)
        return code

    outcome = run_local_ranks(world_size, rank_main)
    if options.file is not None and outcome.culprit is None:
        # torch removes it where ranks end as programs do; forked ones skip that
        options.file.unlink(missing_ok=True)
    found = outcome.culprit is not None and outcome.culprit.error is None
    quiet = found and outcome.exit_code in (ExitCode.FINDING, ExitCode.NO_VERDICT)
    if outcome.message and not quiet:  # what rank 0 found is on the screen
        print(f"clusterlab: {outcome.message}", file=sys.stderr)
    return outcome.exit_code


def _measure(options: BringupOptions, met: _Met, marks: Marks) -> int:
    """This rank's part once the store is there; rank 0 reports, and its exit code says what was found."""
    import torch.distributed as dist

    identity, store, backend = met.identity, met.store, met.backend
    started_unix_s = marks.started_unix_s
    environ: MutableMapping[str, str] = os.environ
    said = caught_output(environ) if backend == "nccl" else nullcontext(lambda: "")
    repeated: Repeated | None = None
    with said as output, Watchdog(identity, options.deadline_s, store) as watchdog:
        device = bring_up(identity, store, backend, marks, watchdog, timeout_s=options.deadline_s)
        before = _timings(output())
        if options.repeat:
            repeated = repeat_communicators(options.repeat, device, watchdog)
            repeated = _with_nccl(repeated, _timings(output())[len(before) :])
        dist.destroy_process_group()
        mine = RankBringup(
            identity.rank,
            identity.host,
            os.getpid(),
            marks.phases(),
            started_unix_s,
            started_unix_s,
            _split(before[0]) if before else None,
            repeated,
        )
        mine = replace(mine, ended_unix_s=started_unix_s + mine.total_s)
    records = roll_call(
        store,
        identity,
        "bringup",
        rank_to_json(mine),
        lambda _: None,
        timeout_s=options.deadline_s,
    )
    if records is None:
        return ExitCode.OK
    from clusterlab.runs.probing.bringup_report import (
        report,  # what only rank 0 needs, and not measured
    )

    ranks = tuple(rank_from_json(record) for record in records)
    bringup = Bringup(backend, met.way, identity.source, _versions(backend), ranks)
    return report(bringup, name=options.name, as_json=options.as_json, repeat=options.repeat)


def _timings(text: str) -> list[InitTimings]:
    """This process's: ranks may share a file."""
    return init_timings(line for line in log_lines(text) if line.pid in (None, os.getpid()))


def _split(found: InitTimings) -> InitSplit:
    inner = {f"bootstrap {name}": seconds for name, seconds in found.bootstrap.items()}
    return InitSplit(found.function, found.total_s, {**found.parts, **inner})


def _with_nccl(repeated: Repeated, found: list[InitTimings]) -> Repeated:
    """With NCCL's name of the call and its own times, where its log has them."""
    if not found:
        return repeated
    functions = dict.fromkeys(one.function or "init" for one in found)
    times = tuple(one.total_s for one in found)
    return replace(repeated, function=", ".join(functions), init_s=times)


def _versions(backend: str) -> str:
    import torch

    text = f"{backend}, torch {torch.__version__}"
    if backend == "nccl":
        text += f", NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}"  # type: ignore[no-untyped-call]
    return text
