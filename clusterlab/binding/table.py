"""A joined record and its findings for people: rank → host → GPU → NUMA → cores → NIC, then what is wrong.

No line is wider than 100 columns, but the commands of a fix: they stand unbroken, to be pasted. What several
ranks say alike is said once, with the ranks. Consequences stand under their cause, without evidence of
their own. Pure.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence

from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.filters import filter_lines
from clusterlab.binding.records import JoinedRecord, RankRecord
from clusterlab.binding.table_environment import environment_lines
from clusterlab.binding.table_hosts import short_hosts
from clusterlab.core.findings import Finding
from clusterlab.core.order import number_list
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.launch.roll_call import rank_words

WIDTH = 100
_GAP = "  "
_MOST_EVIDENCE = 8
_MOST_ROWS = 64

Cell = Callable[[Scene, RankRecord], str]


def record_lines(
    record: JoinedRecord, findings: Sequence[Finding], *, environment: bool = False
) -> list[str]:
    """The whole report. ``environment``: with the variables that decide."""
    return [
        *_wrapped("# ", _headline(record)),
        *_short_of_ranks(record),
        *_table(record),
        *_said(record, [(text, r.rank) for r in record.ranks for text in r.notes]),
        *_said(record, [(text, r.rank) for r in record.ranks for text in filter_lines(record, r)]),
        *(environment_lines(record, _wrapped) if environment else []),
        *([""] if findings else []),
        *finding_lines(findings),
    ]


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Findings with evidence and fix; what follows from another is indented under it, in one line."""
    lines = [] if findings else ["# no findings"]
    for finding in findings:
        ranks = f" ({rank_words(finding.ranks)})" if finding.ranks else ""
        head = f"{finding.severity} {finding.code}{ranks}"
        if finding.caused_by is not None:
            first = finding.evidence[0] if finding.evidence else ""
            lines += _wrapped("    follows: ", f"{head}: {first}")
            continue
        lines += _wrapped("", head)
        for text in finding.evidence[:_MOST_EVIDENCE]:
            lines += _wrapped("  ", text)
        if len(finding.evidence) > _MOST_EVIDENCE:
            lines.append(f"  and {len(finding.evidence) - _MOST_EVIDENCE} more")
        lines += _fix_lines(finding.fix)
    return lines


def _fix_lines(fix: str) -> list[str]:
    """Commands each on a line of its own, however long; ``# …`` is prose and wrapped."""
    lines = ["  fix:"]
    for line in fix.splitlines():
        lines += _wrapped("    # ", line[2:]) if line.startswith("# ") else [f"    {line}"]
    return lines


def _headline(record: JoinedRecord) -> str:
    hosts = list(dict.fromkeys(r.host for r in record.ranks))
    names = compress_hostlist(hosts)
    seen = f"{len(record.ranks)} rank{'s' if len(record.ranks) != 1 else ''}"
    lost = f", {len(record.missing_ranks)} missing" if record.missing_ranks else ""
    started = f"; started by: {record.launcher}" if record.launcher else ""
    sources = ", ".join(dict.fromkeys(r.identity_from for r in record.ranks if r.identity_from))
    told = f", identity from {sources}" if sources else ""
    where = f"{len(hosts)} host{'s' * (len(hosts) != 1)} ({names})"
    return f"clusterlab doctor: {seen}{lost} on {where}{told}{started}"


def _said(record: JoinedRecord, pairs: Iterable[tuple[str, int]]) -> list[str]:
    """Each text once, with the ranks it is of."""
    ranks_of: dict[str, list[int]] = {}
    for text, rank in pairs:
        ranks_of.setdefault(text, []).append(rank)
    return [
        line
        for text, ranks in ranks_of.items()
        for line in _wrapped(f"# {_whose(ranks, record)}: ", text)
    ]


def _whose(ranks: Sequence[int], record: JoinedRecord) -> str:
    return "all ranks" if len(ranks) == len(record.ranks) > 1 else rank_words(ranks)


def _short_of_ranks(record: JoinedRecord) -> list[str]:
    """Where missing ranks most likely were to run: the hosts with fewer ranks than others."""
    counts = dict.fromkeys(record.nodes, 0)
    for rank in record.ranks:
        counts[rank.host] = counts.get(rank.host, 0) + 1
    most = max(counts.values(), default=0)
    few = [host for host, count in counts.items() if count < most]
    if not record.missing_ranks or not few:
        return []
    shown = ", ".join(f"{host} ({counts[host]} of {most})" for host in few[:_MOST_EVIDENCE])
    more = f" and {len(few) - _MOST_EVIDENCE} more" if len(few) > _MOST_EVIDENCE else ""
    return _wrapped("# ", f"hosts with fewer ranks than others: {shown}{more}")


def _table(record: JoinedRecord) -> list[str]:
    scene = Scene(record)
    shown = record.ranks[:_MOST_ROWS]
    rows = [[heading for heading, _, _ in _COLUMNS]]
    rows += [[cell(scene, rank) for _, cell, _ in _COLUMNS] for rank in shown]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    narrowest = [low for _, _, low in _COLUMNS]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > WIDTH:
        widest = max(range(len(widths)), key=lambda i: widths[i] - narrowest[i])
        widths[widest] -= 1
    names = short_hosts([rank.host for rank in shown], widths[_HOST])
    for row, name in zip(rows[1:], names, strict=True):
        row[_HOST] = name
    widths[_HOST] = max(len(row[_HOST]) for row in rows)
    lines = [
        _GAP.join(_cut(cell, w).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if len(record.ranks) > _MOST_ROWS:
        lines.append(f"… and {len(record.ranks) - _MOST_ROWS} more ranks")
    return lines if record.ranks else []


def _visible(_scene: Scene, rank: RankRecord) -> str:
    names = (
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
    )
    mask = next((rank.env[n] for n in names if n in rank.env), None)
    return "unset" if mask is None else " ".join(mask.split()) or '""'


def _gpu(scene: Scene, rank: RankRecord) -> str:
    device = scene.device(rank)
    if device is not None:
        return device.key
    node = scene.node(rank)
    if rank.visible is None:
        return "-" if node is not None and not node.gpus else "?"
    return "none" if rank.selected_device is not None or not rank.visible else "-"


def _gpu_numa(scene: Scene, rank: RankRecord) -> str:
    device = scene.device(rank)
    if device is None or device.gpu is None:
        return "-"
    return "?" if device.gpu.numa is None or device.gpu.numa < 0 else str(device.gpu.numa)


def _core_numa(scene: Scene, rank: RankRecord) -> str:
    node = scene.node(rank)
    if node is None or rank.cpus is None:
        return "-"
    return ",".join(str(d) for d, cpus in sorted(node.numa.items()) if rank.cpus & cpus) or "?"


def _nic(scene: Scene, rank: RankRecord) -> str:
    if rank.nic_used:
        return rank.nic_used
    if rank.nearest_nics:
        names = [text.partition(" ")[0] for text in rank.nearest_nics]
        return f"{','.join(names)} {rank.nearest_nics[0].partition(' ')[2]}".rstrip()
    device, node = scene.device(rank), scene.node(rank)
    if device is None or device.gpu is None or node is None:
        return "-"
    near = [n.name for n in node.nics if n.near_gpu is not None and n.near_gpu == device.gpu.index]
    return f"{','.join(near)} nearest" if near else "-"


_COLUMNS: tuple[tuple[str, Cell, int], ...] = (
    # heading, cell, narrowest it may become
    ("rank", lambda _, r: str(r.rank), 4),
    ("host", lambda _, r: r.host, 8),
    ("local", lambda _, r: "?" if r.local_rank is None else str(r.local_rank), 5),
    ("visible", _visible, 7),
    ("GPU", _gpu, 12),
    ("GPU NUMA", _gpu_numa, 8),
    ("cores", lambda _, r: "?" if r.cpus is None else number_list(r.cpus) or "-", 8),
    ("core NUMA", _core_numa, 9),
    ("NIC", _nic, 8),
)
_HOST = 1


class _Wrapper(textwrap.TextWrapper):
    """Breaks what is too long for half a line after the commas of its list, not inside a name."""

    def _split(self, text: str) -> list[str]:
        chunks: list[str] = []
        for chunk in super()._split(text):
            long = len(chunk) > WIDTH // 2
            chunks += re.split(r"(?<=,)(?![^\[]*\])", chunk) if long else [chunk]
        return [chunk for chunk in chunks if chunk]


def _wrapped(lead: str, text: str) -> list[str]:
    follow = lead if lead.endswith("# ") else "# " if lead.startswith("#") else " " * len(lead)
    return _Wrapper(
        WIDTH, initial_indent=lead, subsequent_indent=follow, break_on_hyphens=False
    ).wrap(text)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
