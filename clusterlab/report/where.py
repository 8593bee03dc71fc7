"""Where a run ran and on what, in words."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row
from clusterlab.records.run_info import Context
from clusterlab.report.data import ReportData
from clusterlab.report.numbers import NOT_KNOWN
from clusterlab.report.text import plain


def facts(data: ReportData, context: Context) -> tuple[tuple[str, str], ...]:
    """When, on how many ranks, hosts and GPUs, over what, predicted from what: name and value."""
    info, placement = data.run.info, data.placement
    configured = str(info.configuration.get("backend") or "")
    found = [("Measured", _period(data)), ("Ranks", _ranks_in_words(placement, data.rows))]
    hosts = placement.hosts if placement else (context.host,)
    found.append(("Hosts", _first_few(hosts)))
    gpus = dict.fromkeys(r.gpu_name for r in placement.ranks if r.gpu_name) if placement else {}
    if gpus:
        found.append(("GPUs", _first_few(tuple(gpus))))
    backends = tuple(dict.fromkeys(r.backend for r in data.rows)) or (configured,)
    found.append(("Backend", _first_few(tuple(filter(None, backends)))))
    if data.rows:
        found.append(("Timing", _first_few(tuple(dict.fromkeys(r.timing for r in data.rows)))))
    found.append(("Attempts", str(len(info.attempts))))
    found.append(("Fabric", _fabric(data)))
    if data.rows:
        found.append(("Predicted from", _provenance(data)))
    return tuple((name, plain(value)) for name, value in found)


def _period(data: ReportData) -> str:
    """``2026-11-29 12:00:00 to 12:01:51 UTC``; the second date only where it is another day."""
    times = [row.time_utc for row in data.rows]
    times += [step.time_utc for step in data.steps]
    times += [one.time_utc for one in data.passes]
    times += [one.time_utc for one in data.overlaps]
    if not times:
        return f"nothing yet; created {_moment(data.run.info.created_utc)} UTC"
    first, last = _moment(min(times)), _moment(max(times))
    same_day = first[:10] == last[:10]
    return f"{first} to {last[11:] if same_day else last} UTC"


def _moment(utc: str) -> str:
    """``2026-11-29T12:00:00Z`` -> ``2026-11-29 12:00:00``."""
    return utc[:19].replace("T", " ")


def _ranks_in_words(placement: Placement | None, rows: Sequence[Row]) -> str:
    if placement:
        hosts = len(placement.hosts)
        return f"{placement.world_size} on {hosts} host{'s' if hosts > 1 else ''}"
    return _first_few(tuple(str(n) for n in sorted({row.world_size for row in rows})))


def _first_few(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) or NOT_KNOWN


def _fabric(data: ReportData) -> str:
    fabric = data.fabric
    if fabric is None:
        return "none named"
    changed = "".join(f", {name}: {value}" for name, value in fabric.overrides.items())
    return f"{fabric.design} (sha256 {fabric.sha256[:12]}){changed}"


def _provenance(data: ReportData) -> str:
    named = data.fabric.calibration if data.fabric else None
    found = tuple(dict.fromkeys(row.provenance for row in data.rows if row.provenance))
    return named or _first_few(found, 3)


def rank_cells(placement: Placement | None) -> tuple[tuple[str, ...], ...]:
    """Per rank: rank, host, local rank, GPU, NUMA domain, cores, NICs."""
    return tuple(
        (
            str(r.rank),
            plain(r.host),
            str(r.local_rank),
            plain(" ".join(x for x in (r.gpu or "", r.gpu_name or "") if x)) or NOT_KNOWN,
            NOT_KNOWN if r.numa is None else str(r.numa),
            _ranges(r.cores),
            plain(", ".join(r.nics)) or NOT_KNOWN,
        )
        for r in (placement.ranks if placement else ())
    )


def host_cells(
    placement: Placement | None, findings: Sequence[Finding]
) -> tuple[tuple[str, ...], ...]:
    """Per host: its ranks, GPUs, NICs, and which findings name its ranks; equal hosts that no finding names
    share a line.
    """
    if placement is None:
        return ()
    named = [f for f in findings if f.ranks and f.severity != Severity.INFO]
    by_host: dict[str, list[RankPlacement]] = {}
    for rank in placement.ranks:
        by_host.setdefault(rank.host, []).append(rank)
    lines: dict[tuple[str, ...], tuple[list[str], list[int]]] = {}
    for host, ranks in by_host.items():
        numbers = [rank.rank for rank in ranks]
        codes = dict.fromkeys(f.code for f in named if set(f.ranks) & set(numbers))
        what = (
            str(len(ranks)),
            _first_few(tuple(dict.fromkeys(r.gpu_name or "no GPU" for r in ranks))),
            _first_few(tuple(dict.fromkeys(nic for r in ranks for nic in r.nics)), 8),
            ", ".join(codes) or "nothing",
        )
        key = (*what, host if codes else "")
        hosts, members = lines.setdefault(key, ([], []))
        hosts.append(host)
        members.extend(numbers)
    return tuple(
        (
            plain(_first_few(hosts, 4)) + (f" ({len(hosts)})" if len(hosts) > 1 else ""),
            _ranges(members),
            *(plain(text) for text in key[:-1]),
        )
        for key, (hosts, members) in lines.items()
    )


def _ranges(cores: Sequence[int]) -> str:
    """``0-3,8`` for (0, 1, 2, 3, 8), as the kernel writes CPU lists."""
    spans: list[list[int]] = []
    for core in sorted(cores):
        if spans and core == spans[-1][1] + 1:
            spans[-1][1] = core
        else:
            spans.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans) or NOT_KNOWN
