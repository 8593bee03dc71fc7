"""A trend for the terminal: what is slower, since when, on which nodes; then each series over time.

It shows what ``verdict/trend`` decided, from the plain values that --json prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterlab.core.sizes import human_size
from clusterlab.report.console.history import count, short
from clusterlab.report.numbers import NOT_KNOWN, three_digits
from clusterlab.report.text import plain
from clusterlab.verdict.against.changes import What
from clusterlab.verdict.against.noise import band_words

SERIES_LAYOUT = ("<10", ">8", "<5", "<5", ">4", "<5", ">7", ">7", ">9", ">6", ">7", "<4")
_HEAD = (
    *("collective", "size", "timing", "place", "runs", "busbw over time", "before", "recent"),
    *("predicted", "ratio", "time", "since"),
)
BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", ".:-=+*#@"
_HEIGHT = 0.2
"""A picture's full height is at least this share of its largest value: noise is no mountain range."""
_MOST_HOSTS = 6
_MOST_ALONE = 8
_MOST_NAMES = 4
Data = Mapping[str, Any]


def head_line(machine: Data) -> str:
    """Of which machine, how many runs, from when to when."""
    names = [
        machine[key] for key in ("cluster", "fabric", "gpus", "layout", "backend") if machine[key]
    ]
    days = f"{machine['first_utc'][:10]} to {machine['last_utc'][:10]}"
    return f"{', '.join(short(name) for name in names)}: {count(machine['runs'], 'run')}, {days}"


def finding_lines(machine: Data) -> Iterator[str]:
    """Nodes first, then what changed as a whole, then single series; or that nothing did."""
    nodes = list(_node_lines(machine["slow_nodes"]))
    shifts = list(_shift_lines(machine["cells"]))
    alone = list(_alone_lines(machine["alone"]))
    yield from (*nodes, *shifts, *alone)
    for change in machine["together"]:
        if change["what"] in {What.REGRESSION, What.IMPROVEMENT}:
            yield f"{_word(change)}  all collectives {change['band']}: {_times(change)}"
    yield from _recent_lines(machine["cells"], shown=bool(shifts))
    if machine["wrong_rows"]:
        yield (
            f"wrong data in {count(machine['wrong_rows'], 'row')}, which count in nothing here "
            "(clusterlab runs list --verdict invalid)"
        )
    if not (nodes or shifts or alone):
        yield _nothing(machine)


def _node_lines(nodes: Sequence[Data]) -> Iterator[str]:
    hosts = dict.fromkeys(node["host"] for node in nodes)
    for host in hosts:
        own = [node for node in nodes if node["host"] == host]
        since = [node["since"]["time_utc"] for node in own if node["since"]]
        worst = max(own, key=lambda node: node["ratio"])
        yield (
            f"slow node  {short(host)}: {_times(worst)} in its last {worst['runs']} runs against "
            f"{worst['runs_without']} without it"
        )
        if since:
            middle = sorted(since)[len(since) // 2]
            one = next(
                node for node in own if node["since"] and node["since"]["time_utc"] == middle
            )
            yield f"           {_since(one)}"
        else:
            yield "           in all its runs there are"
        yield f"           in {', '.join(_where(node) for node in own)}"


def _shift_lines(cells: Sequence[Data]) -> Iterator[str]:
    """Shifts that began with one run are told together."""
    together: dict[tuple[str, bool], list[tuple[Data, Data]]] = {}
    for cell in cells:
        for shift in cell["shifts"]:
            key = (shift["since"]["run"], shift["ratio"] > 1)
            together.setdefault(key, []).append((cell, shift))
    for own in sorted(together.values(), key=lambda own: str(own[0][1]["since"]["time_utc"])):
        shifts = [shift for _, shift in own]
        proof = "" if any(shift["proven"] for shift in shifts) else "about "
        yield f"{_word(shifts[0])}  {proof}{_since(shifts[0])}"
        yield from (f"           {_where(cell)}: {_times(shift)}" for cell, shift in own)
        for said in dict.fromkeys(said for shift in shifts for said in shift["differs"]):
            yield f"           otherwise since then: {plain(said)}"
        if shifts[0]["ratio"] > 1:
            yield from dict.fromkeys(f"           {_nodes(shift['nodes'])}" for shift in shifts)


def _nodes(nodes: Data) -> str:
    if nodes["why_not"]:
        return f"nodes: {plain(nodes['why_not'])}"
    hosts = nodes["hosts"]
    named = ", ".join(
        f"{short(n['host'])} (×{n['ratio']:.3g}, {n['runs']} runs)" for n in hosts[:_MOST_HOSTS]
    )
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    rest = "; runs without them are as before" if nodes["others_as_before"] else ""
    return f"nodes: {named}{more}{rest}"


def _alone_lines(alone: Sequence[Data]) -> Iterator[str]:
    """Series on the same hosts since the same run are told together: the pairs of ranks of one link."""
    together: dict[tuple[object, ...], list[Data]] = {}
    for one in alone:
        hosts = tuple(sorted(one["hosts"])) if one["ranks"] else one["group"]
        together.setdefault((one["since"]["run"], hosts), []).append(one)
    groups = list(together.values())
    for own in groups[:_MOST_ALONE]:
        first = own[0]
        hosts = ", ".join(short(host) for host in sorted(first["hosts"])[:_MOST_HOSTS])
        on = f" on {hosts}" if first["ranks"] and hosts else ""
        names = list(dict.fromkeys(_alone_name(one) for one in own))
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        times = sorted(one["ratio"] for one in own)
        factor = f"×{times[0]:.3g}" + (f" to ×{times[-1]:.3g}" if len(times) > 1 else "")
        yield f"slower alone{on}  time {factor}, about since {_when(first['since'])}"
        yield f"           {', '.join(names[:_MOST_NAMES])}{more}"
    if len(groups) > _MOST_ALONE:
        yield f"           and {len(groups) - _MOST_ALONE} more such (--json has them)"


def _alone_name(one: Data) -> str:
    where = f" of {short(one['group'])}" if one["group"] else ""
    return f"{one['collective']}{where} {human_size(one['size_bytes'])}, {one['timing']}"


def _recent_lines(cells: Sequence[Data], *, shown: bool) -> Iterator[str]:
    """What the recent runs say where no shift says it."""
    for cell in cells:
        changed = cell["what"] in {What.REGRESSION, What.IMPROVEMENT}
        if changed and not cell["shifts"]:
            yield f"{_word(cell)}  {_where(cell)}: {_times(cell)} in the last runs"


def _nothing(machine: Data) -> str:
    known = [cell for cell in machine["cells"] if cell["seen"] is not None]
    if not known:
        whys = [cell["why"] for cell in machine["cells"] if cell["why"]]
        return f"nothing to compare: {plain(whys[0]) if whys else 'no series of two runs'}"
    seen = sorted(cell["seen"] for cell in known)
    return (
        f"no change beyond what runs differ by; in the last runs {seen[0]:.1%} would have shown in the "
        f"most certain of {len(seen)} groups, {seen[-1]:.1%} in the least"
    )


def _word(change: Data) -> str:
    return "slower   " if (change["ratio"] or 1.0) > 1 else "faster   "


def _times(change: Data) -> str:
    if change["ratio"] is None:
        return NOT_KNOWN
    return f"time ×{change['ratio']:.3f} ({change['low']:.3f} to {change['high']:.3f})"


def _since(change: Data) -> str:
    return f"since {_when(change['since'])}; the last run before: {_when(change['last_before'])}"


def _when(run: Data) -> str:
    return f"{run['time_utc'][:16].replace('T', ' ')} ({short(run['run'], 60)})"


def _where(cell: Data) -> str:
    timing = f", {cell['timing']}" if cell["timing"] else ""
    return f"{plain(cell['collective'] or 'all collectives')} {band_words(cell['band'])}{timing}"


def series_cells(series: Sequence[Data], *, bars: str = BARS) -> list[list[str]]:
    """Each series, head first: busbw in GB/s, ``time`` the change of the recent runs' time."""
    return [list(_HEAD), *(_line(one, bars) for one in series)]


def _line(one: Data, bars: str) -> list[str]:
    name = one["collective"] + (f" of {one['group']}" if one["group"] else "")
    name += f" beside {one['beside']}" if one["beside"] else ""
    change, ratio = one["time_ratio"], one["measured_over_predicted"]
    latest = one["shifts"][-1] if one["shifts"] else None
    return [
        short(name),
        human_size(one["size_bytes"]),
        short(one["timing"]),
        "in" if one["in_place"] else "out",
        str(one["runs"]),
        picture(one["busbw_over_time_GBps"], bars),
        *(_figure(one[f"{key}_busbw_GBps"]) for key in ("before", "recent", "predicted")),
        NOT_KNOWN if ratio is None else f"{ratio:.2f}",
        NOT_KNOWN if change is None else f"{change - 1:+.1%}",
        ""
        if latest is None
        else f"{'▼' if latest['ratio'] > 1 else '▲'} {latest['since']['time_utc'][:10]}",
    ]


def _figure(value: float | None) -> str:
    return NOT_KNOWN if value is None else three_digits(value)


def picture(values: Sequence[float | None], bars: str = BARS) -> str:
    """One sign a value, higher is more; a blank where nothing is known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    top = max(known)
    bottom = min(*known, (1 - _HEIGHT) * top)
    step = (top - bottom) / len(bars) or 1.0
    return "".join(
        " " if value is None else bars[min(len(bars) - 1, int((value - bottom) / step))]
        for value in values
    )
