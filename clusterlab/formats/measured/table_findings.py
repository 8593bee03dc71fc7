"""What is wrong with a table of nccl-tests, one function for each finding; None: nothing."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.collectives import busbw_factor
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.measured import MeasuredRow
from clusterlab.core.sizes import human_size
from clusterlab.formats.measured.plausible import LIMITS, named
from clusterlab.formats.measured.table import Table

_SHOWN = 4


def wrong_values(where: str, table: Table, rows: Sequence[MeasuredRow]) -> Finding | None:
    """The data check failed: these times are of something else than the collective."""
    bad = [row for row in rows if row.wrong]
    if not bad and not table.wrong:
        return None
    lines = ", ".join(f"line {row.line}: {row.wrong}" for row in bad[:_SHOWN])
    evidence = [f"{where}: {len(bad)} rows with wrong elements" + (f" ({lines})" if lines else "")]
    if table.wrong:
        evidence.append(f"{where}: Out of bounds values : {table.wrong}")
    return Finding(
        "wrong_values",
        Severity.ERROR,
        tuple(evidence),
        "do not use these figures; find the fault (GPU memory, NIC, driver) and measure again",
    )


def rows_unusable(
    where: str, doubts: Sequence[tuple[int, str]], what: str = "line"
) -> Finding | None:
    """Figures that were not measured: such rows are left out."""
    if not doubts:
        return None
    return Finding(
        "rows_unusable",
        Severity.WARNING,
        (f"{where}: {len(doubts)} left out, {named(doubts, what)}",),
        f"see what wrote them; a row has {LIMITS}",
    )


def none_measured(where: str, findings: Sequence[Finding]) -> UsageError | None:
    """The error for a file whose rows are all unusable; None where something else is missing."""
    evidence = [line for one in findings if one.code == "rows_unusable" for line in one.evidence]
    if not evidence:
        return None
    return UsageError(
        "no row was measured", where=where, expected=f"rows with {LIMITS}", fix="; ".join(evidence)
    )


def truncated(where: str, table: Table) -> Finding | None:
    """The closing lines are missing: the run ended early, or only part of its output was kept."""
    if table.closed:
        return None
    last = table.rows[-1]
    evidence = f"{where}: no closing lines after the row of {human_size(last.size_bytes)}"
    if table.options:
        evidence += f"; asked for up to {human_size(table.options[-1].end_bytes)} (-e)"
    return Finding(
        "table_truncated",
        Severity.WARNING,
        (evidence,),
        "larger sizes may be missing; see how the run ended",
    )


def separate_processes(where: str, table: Table) -> Finding | None:
    """Each process is a world of its own: the table does not measure what was meant."""
    if table.processes == 1:
        return None
    return Finding(
        "separate_processes",
        Severity.WARNING,
        (f"{where}: {table.processes} processes print a table of their own as rank 0",),
        "build nccl-tests with MPI=1 (`ldd all_reduce_perf` shows libmpi) and start it with mpirun or srun",
    )


def one_rank(where: str, world_size: int | None, processes: int) -> Finding | None:
    """A single rank sends nothing."""
    if world_size != 1 or processes > 1:
        return None
    return Finding(
        "one_rank",
        Severity.INFO,
        (f"{where}: 1 rank; its times are launches and copies, not communication",),
        "start more ranks (-g, -t, mpirun)",
    )


def busbw_disagrees(
    where: str, collective: str | None, world_size: int | None, lines: Sequence[int]
) -> Finding | None:
    """busbw is not algbw times the factor of the collective and ranks the file names."""
    if not lines or collective is None or world_size is None:
        return None
    factor = busbw_factor(collective, world_size)
    return Finding(
        "busbw_disagrees",
        Severity.WARNING,
        (
            f"{where}: busbw is not {factor:.4g} × algbw, as {collective} of {world_size} ranks has it, "
            f"in {len(lines)} rows (line {lines[0]})",
        ),
        "the file mixes runs, or ranks or collective are others than it says: check before use",
    )


def collective_unknown(
    where: str, table: Table, collective: str | None, possible: Sequence[str]
) -> Finding | None:
    """Neither a program's name nor the figures tell which collective it is."""
    if collective is not None:
        return None
    evidence = f"{where}: no program's name, and the rows fit {' and '.join(possible) or 'none'}"
    if table.program is not None:
        evidence = f"{where}: {table.program} is none of the seven collectives"
    return Finding(
        "collective_unknown", Severity.WARNING, (evidence,), "say it with --collective all_reduce"
    )


def ranks_unknown(where: str, world_size: int | None) -> Finding | None:
    """No device list, and the figures allow several numbers of ranks."""
    if world_size is not None:
        return None
    return Finding(
        "ranks_unknown",
        Severity.WARNING,
        (f"{where}: no list of devices, and busbw/algbw fits several numbers of ranks",),
        "say it with --ranks, or --nodes and --gpus-per-node",
    )
