"""The diagnosis for people: rank → host → GPU → NUMA → cores → NICs, then what is wrong. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from clusterlab.binding.look import Look
from clusterlab.core.findings import Finding
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.launch.roll_call import rank_words

WIDTH = 100
_GAP = "  "
_MOST_EVIDENCE = 8


def core_list(cores: Sequence[int]) -> str:
    """``0-3,8`` for (0, 1, 2, 3, 8)."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def report_lines(
    looks: Sequence[Look],
    missing: Sequence[int],
    findings: Sequence[Finding],
    *,
    environment: bool = False,
) -> list[str]:
    """The whole report, no line wider than WIDTH. ``environment``: with the variables that matter."""
    return [
        *_wrapped("# ", _headline(looks, missing)),
        *table_lines(looks),
        *_notes(looks),
        *(_environment(looks) if environment else []),
        *_finding_lines(findings, missing),
    ]


def table_lines(looks: Sequence[Look]) -> list[str]:
    """One line per rank under a heading. Cells that do not fit end in ``…``."""
    rows = [[heading for heading, _, _ in _COLUMNS]]
    rows += [[cell(look) for _, cell, _ in _COLUMNS] for look in looks]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    narrowest = [low for _, _, low in _COLUMNS]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > WIDTH:
        widest = max(range(len(widths)), key=lambda i: widths[i] - narrowest[i])
        widths[widest] -= 1
    return [
        _GAP.join(_cut(cell, w).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _headline(looks: Sequence[Look], missing: Sequence[int]) -> str:
    hosts = list(dict.fromkeys(look.host for look in looks))
    where = f"{len(hosts)} host{'s' if len(hosts) > 1 else ''} ({compress_hostlist(hosts)})"
    sources = ", ".join(dict.fromkeys(look.source for look in looks))
    everyone = len(looks) + len(missing)
    if everyone == 1:
        return f"clusterlab doctor: one process on {hosts[0]}, identity from {sources}"
    seen = f"{len(looks)} of {everyone} ranks" if missing else f"{everyone} ranks"
    return f"clusterlab doctor: {seen} on {where}, identity from {sources}"


def _gpu(look: Look) -> str:
    if look.gpu is not None:
        return look.gpu.bus_id
    if look.problem:
        return "none"
    return "-" if look.visible_count == 0 else "?"


def _gpu_numa(look: Look) -> str:
    if look.gpu is None:
        return "-"
    return "?" if look.gpu.numa is None else str(look.gpu.numa)


def _numbers(numbers: Sequence[int] | None) -> str:
    return "?" if numbers is None else core_list(numbers)


def _nics(look: Look) -> str:
    """The nearest to the GPU with their distance; without a GPU how many there are."""
    near = [nic for nic in look.nics if nic.near]
    if near:
        return f"{','.join(nic.name for nic in near)} {near[0].distance}"
    return f"{len(look.nics)} here" if look.nics else "-"


_COLUMNS: tuple[tuple[str, Callable[[Look], str], int], ...] = (
    # heading, cell, narrowest it may become; each NUMA belongs to what stands before it
    ("rank", lambda look: str(look.rank), 4),
    ("host", lambda look: look.host, 8),
    ("local", lambda look: str(look.local_rank), 5),
    ("visible", lambda look: "unset" if look.mask is None else look.mask or '""', 7),
    ("GPU", _gpu, 12),
    ("NUMA", _gpu_numa, 4),
    ("cores", lambda look: core_list(look.cores), 8),
    ("NUMA", lambda look: _numbers(look.numa), 4),
    ("NICs", _nics, 8),
)


def _notes(looks: Sequence[Look]) -> list[str]:
    return [
        line
        for note, ranks in _grouped((note, look.rank) for look in looks for note in look.notes)
        for line in _wrapped(f"# {_whose(ranks, looks)}: ", note)
    ]


def _environment(looks: Sequence[Look]) -> list[str]:
    pairs = ((f"{n}={v}", look.rank) for look in looks for n, v in look.environment.items())
    return [
        line
        for text, ranks in sorted(_grouped(pairs))
        for line in _wrapped(f"# {_whose(ranks, looks)}: ", text)
    ]


def _finding_lines(findings: Sequence[Finding], missing: Sequence[int]) -> list[str]:
    lines = [""] if findings else ["# no findings"]
    for finding in findings:
        ranks = f" ({rank_words(finding.ranks)})" if finding.ranks else ""
        lines += _wrapped("", f"{finding.severity} {finding.code}{ranks}")
        for text in finding.evidence[:_MOST_EVIDENCE]:
            lines += _wrapped("  ", text)
        if len(finding.evidence) > _MOST_EVIDENCE:
            lines.append(f"  and {len(finding.evidence) - _MOST_EVIDENCE} more")
        lines += _wrapped("  fix: ", finding.fix)
    return lines


def _grouped(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    ranks_of: dict[str, list[int]] = {}
    for text, rank in pairs:
        ranks_of.setdefault(text, []).append(rank)
    return list(ranks_of.items())


def _whose(ranks: Sequence[int], looks: Sequence[Look]) -> str:
    return "all ranks" if len(ranks) == len(looks) > 1 else rank_words(ranks)


def _wrapped(lead: str, text: str) -> list[str]:
    follow = "# " if lead.startswith("#") else " " * len(lead)
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=lead,
        subsequent_indent=follow,
        break_on_hyphens=False,
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
