"""A table of nccl-tests as measured rows, with what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import COLLECTIVES, busbw_factor, collective
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.core.measured import FORCED, OBSERVED, MeasuredRow
from clusterlab.formats.measured import table_findings as found
from clusterlab.formats.measured.evidence import (
    Ratio,
    agreed_ratio,
    count_factor,
    possible_collectives,
    ratio,
)
from clusterlab.formats.measured.plausible import doubt
from clusterlab.formats.measured.table import Table
from clusterlab.formats.nccl_tests import NcclTestsRow, Timing


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of a table as a whole."""

    collective: str | None
    collective_from: str | None
    world_size: int | None
    world_size_from: str | None
    n_nodes: int | None
    gpus_per_node: int | None
    gpu: str | None


def measured_rows(
    table: Table, *, source: str, number: int, exact: bool = False
) -> tuple[list[MeasuredRow], list[Finding]]:
    """The rows of ``table``, each half one row, and its findings.

    A half whose figures no measurement gives is none. ``exact``: they are not rounded (JSON).
    """
    halves = [
        (row, half, in_place)
        for row in table.rows
        for half, in_place in ((row.out_of_place, False), (row.in_place, True))
        if half is not None
    ]
    sound = [
        half
        for row, half, _ in halves
        if doubt(half.time_us, half.busbw_GBps, half.algbw_GBps) is None
    ]
    between = agreed_ratio(sound, exact=exact)
    setting = _setting(table, between)
    doubts = {(row.line, in_place): _doubt(row, half, setting) for row, half, in_place in halves}
    doubts |= _odd_ones(
        [one for one in halves if doubts[one[0].line, one[2]] is None], setting, between, exact
    )
    kept = [one for one in halves if doubts[one[0].line, one[2]] is None]
    rows = [
        _row(
            row, half, in_place=in_place, table=table, setting=setting, source=source, number=number
        )
        for row, half, in_place in kept
    ]
    odd = [row.line for row, half, _ in kept if not _fits(half, setting, exact)]
    unusable = dict.fromkeys((line, why) for (line, _), why in doubts.items() if why is not None)
    where = f"{source}, table {number}"
    findings = [
        found.rows_unusable(where, list(unusable), "result" if exact else "line"),
        found.wrong_values(where, table, rows),
        found.truncated(where, table),
        found.separate_processes(where, table),
        found.busbw_disagrees(where, setting.collective, setting.world_size, odd),
        found.collective_unknown(
            where,
            table,
            setting.collective,
            possible_collectives(table.rows, between, setting.world_size),
        ),
        found.ranks_unknown(where, setting.world_size),
        found.one_rank(where, setting.world_size, table.processes),
    ]
    return rows, [finding for finding in findings if finding is not None]


def _setting(table: Table, between: Ratio) -> Setting:
    ranks, ranks_from, nodes, per_node = _ranks(table)
    name, name_from = _named(table)
    if name is None and name_from is None:
        name, name_from = _proved(table, between, ranks)
    if ranks is None:
        ranks, ranks_from = _ranks_proved(table, between, name)
    gpus = sorted({rank.gpu for rank in table.ranks if rank.gpu})
    return Setting(name, name_from, ranks, ranks_from, nodes, per_node, ", ".join(gpus[:4]) or None)


def _ranks(table: Table) -> tuple[int | None, str | None, int | None, int | None]:
    """Ranks, where from, nodes and GPUs per node, as devices are listed or NCCL prints."""
    listed = {rank.rank: rank for rank in table.ranks}
    if listed and set(listed) == set(range(len(listed))):
        first = listed[0].group
        group = [rank for rank in listed.values() if rank.group == first]
        hosts = [rank.host for rank in group]
        counts = {hosts.count(host) for host in set(hosts)}
        per_node = counts.pop() if len(counts) == 1 else None
        return len(group), "devices listed", len(set(hosts)), per_node
    sizes = {ranks for ranks, _, _ in table.nccl_ranks}
    if len(sizes) != 1:
        return None, None, None, None
    nodes = {nodes for _, nodes, _ in table.nccl_ranks if nodes}
    local = {local for _, _, local in table.nccl_ranks if local}
    return (
        sizes.pop(),
        "NCCL's nranks",
        nodes.pop() if len(nodes) == 1 else None,
        local.pop() if len(local) == 1 else None,
    )


def _named(table: Table) -> tuple[str | None, str | None]:
    """The collective by the program's name; (None, why) for a program that measures none of ours."""
    if table.program is None:
        return None, None
    source = f"program {table.program}" if table.program_said else f"command {table.program}"
    try:
        name = collective(table.program.replace("_test", "")).name
    except UsageError:
        return None, source
    return (name if name in COLLECTIVES else None), source


def _proved(table: Table, between: Ratio, ranks: int | None) -> tuple[str | None, str | None]:
    possible = possible_collectives(table.rows, between, ranks)
    if len(possible) != 1 or (table.mscclpp and possible[0] != "all_reduce"):
        return None, None
    return possible[0], "busbw/algbw, redop, root, count and checks of the rows"


def _ranks_proved(table: Table, between: Ratio, name: str | None) -> tuple[int | None, str | None]:
    parts = count_factor(table.rows)
    by_count = parts if parts and parts > 1 else None
    possible = between.ranks(name) if name is not None else range(0)
    if by_count is not None and (name is None or by_count in possible):
        return by_count, "size over count"
    if len(possible) == 1 and between.low <= between.high:
        return possible[0], "busbw/algbw"
    return None, None


def _doubt(row: NcclTestsRow, half: Timing, setting: Setting) -> str | None:
    moves = row.size_bytes > 0 and setting.world_size != 1
    return doubt(half.time_us, half.busbw_GBps, half.algbw_GBps, moves=moves)


def _odd_ones(
    halves: Sequence[tuple[NcclTestsRow, Timing, bool]],
    setting: Setting,
    between: Ratio,
    exact: bool,
) -> dict[tuple[int, bool], str | None]:
    """Halves whose busbw and algbw do not fit, where more than half of the table's do: nobody knows which of
    their figures is right. Where most do not, it is the collective or the ranks that are others.
    """
    factor = None
    if setting.collective is not None and setting.world_size is not None:
        factor = busbw_factor(setting.collective, setting.world_size)
    elif between.low > between.high:
        return {}
    odd = [
        (row, half, in_place)
        for row, half, in_place in halves
        if not (
            _fits(half, setting, exact)
            if factor is not None
            else _overlap(ratio(half, exact=exact), between)
        )
    ]
    if 2 * len(odd) >= len(halves):
        return {}
    told = f"{factor or between.low:.4g} ×"
    return {
        (
            row.line,
            in_place,
        ): f"a busbw of {half.busbw_GBps:g} GB/s that is not {told} its algbw of "
        f"{half.algbw_GBps:g} GB/s, as in the other rows"
        for row, half, in_place in odd
    }


def _overlap(one: Ratio, other: Ratio) -> bool:
    return one.low <= other.high + 1e-9 and other.low <= one.high + 1e-9


def _fits(timing: Timing, setting: Setting, exact: bool) -> bool:
    if setting.collective is None or setting.world_size is None:
        return True
    return ratio(timing, exact=exact).holds(busbw_factor(setting.collective, setting.world_size))


def _row(
    row: NcclTestsRow,
    timing: Timing,
    *,
    in_place: bool,
    table: Table,
    setting: Setting,
    source: str,
    number: int,
) -> MeasuredRow:
    tool = next((v for v in table.versions if v.tool), None)
    library = next((v for v in table.versions if v.library_version), None)
    options = table.options[-1] if table.options else None
    counted = row.layout.counts_wrong if row.layout else timing.wrong.isdecimal()
    algorithm, protocol, channels = _chosen(row, table, setting)
    algorithm_from = _chosen_from(algorithm, table.forced_algorithm)
    protocol_from = _chosen_from(protocol, table.forced_protocol)
    return MeasuredRow(
        source=source,
        line=row.line,
        table=number,
        tool="mscclpp-test" if table.mscclpp else tool.tool if tool and tool.tool else "nccl-tests",
        tool_version=tool.tool_version if tool else None,
        gpu=setting.gpu,
        n_nodes=setting.n_nodes,
        gpus_per_node=setting.gpus_per_node,
        world_size=setting.world_size,
        world_size_from=setting.world_size_from,
        collective=setting.collective,
        collective_from=setting.collective_from,
        dtype=_dtype(row.dtype),
        op=_op(row.redop),
        root=row.root if row.root is not None and row.root >= 0 else None,
        in_place=in_place,
        size_bytes=row.size_bytes,
        count=row.count,
        time_us=timing.time_us,
        algbw_GBps=timing.algbw_GBps,
        busbw_GBps=timing.busbw_GBps,
        wrong=int(float(timing.wrong)) if counted and timing.wrong != "N/A" else None,
        max_error=float(timing.wrong) if not counted and timing.wrong != "N/A" else None,
        algorithm=algorithm,
        algorithm_from=algorithm_from,
        protocol=protocol,
        protocol_from=protocol_from,
        channels=channels,
        library=library.library if library else None,
        library_version=library.library_version if library else None,
        iterations=options.iterations if options else None,
        warmup=options.warmup if options else None,
        cuda_graph=options.graph > 0 if options and options.graph is not None else None,
    )


def _chosen(
    row: NcclTestsRow, table: Table, setting: Setting
) -> tuple[str | None, str | None, int | None]:
    """Algorithm, protocol and channels of NCCL's own lines where all of this size agree, else as forced."""
    what = COLLECTIVES.get(setting.collective or "")
    parts = (setting.world_size or 0) if what is not None and what.per_rank else 1
    fitting = {
        (choice.algorithm, choice.protocol, choice.channels)
        for choice in table.choices
        if what is not None
        and choice.collective in {None, what.name}
        and choice.bytes * (parts if choice.time_us is None else 1) == row.size_bytes
    }
    if len(fitting) == 1:
        return fitting.pop()
    return table.forced_algorithm, table.forced_protocol, None


def _chosen_from(value: str | None, forced: str | None) -> str | None:
    if value is None:
        return None
    return FORCED if value == forced else OBSERVED


def _dtype(word: str | None) -> str | None:
    """Our name; the tool's own word for a type we do not have."""
    try:
        return dtype(word).name if word else None
    except UsageError:
        return word


def _op(word: str | None) -> str | None:
    return None if word == "none" else word
