"""``nvidia-smi topo -m``: a matrix of how near GPUs and NICs are, in all its printed and pasted forms.

Columns are named in a header; a row is a name, one cell a column, then CPU affinity, NUMA affinity and
GPU NUMA ID as far as the driver knows them. Rows, cells or the header itself may be missing in what
people paste, so a row's ``X`` decides whether its cells stand where the header says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clusterlab.core.errors import UsageError
from clusterlab.formats.smi_text import RECOGNISED_CHARS, check_count, clean_lines
from clusterlab.formats.topo_m_affinity import ORDER, Label, by_shape, by_tabs

MOST_LINKS = 64
"""No GPU has more NVLinks; a larger NV# is a torn cell."""

_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
_CELLS = re.compile(rf"(?:{_CELL.pattern})+")
_NUMBERED = re.compile(r"(?:GPU|NIC)\d{1,4}|mlx\d_\d{1,4}")
_NUMBERED_RUN = re.compile(rf"(?:{_NUMBERED.pattern})+")
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*\d[A-Za-z0-9_.:-]*")
_LABELS = re.compile(
    r"(?P<gpu_numa>GPU NUMA ID)|(?P<cpus>CPU(?: Affinity)?)|(?P<numa>NUMA(?: Affinity)?)"
)
_LABEL_WORDS = frozenset({"CPU", "NUMA", "Affinity", "GPU", "ID"})
_LEGEND = re.compile(r"(NIC\d{1,4})\s*:\s*(\S+)\s*")
_GPU = re.compile(r"GPU\d{1,4}")
_FAR_CELL = re.compile(r"NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")

ProblemKind = Literal["unreadable", "torn", "extra", "misaligned", "affinity"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a row that could not be taken as it stands."""

    kind: ProblemKind
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class TopoRow:
    """One row. ``cells`` follow the columns; None: torn off or unreadable. Affinities as printed."""

    name: str
    line: int
    cells: tuple[str | None, ...]
    cpus: str | None = None
    numa: str | None = None
    gpu_numa: str | None = None


@dataclass(frozen=True)
class TopoMatrix:
    """The matrix as far as it is there.

    ``labels``: the affinity columns the header names. ``nic_names``: the NIC legend (NIC0: mlx5_0).
    ``more_matrices``: how many further matrices the text holds.
    """

    columns: tuple[str, ...]
    rows: Mapping[str, TopoRow]
    labels: tuple[Label, ...]
    nic_names: Mapping[str, str]
    has_header: bool
    more_matrices: int = 0
    problems: tuple[Problem, ...] = ()

    def cell(self, row: str, column: str) -> str | None:
        """What ``row`` says about ``column``; None where the row or the cell is missing."""
        found = self.rows.get(row)
        return None if found is None else found.cells[self.columns.index(column)]


def recognise(text: str) -> bool:
    """True for a text with a row of topology cells (``GPU0 X NV12 … SYS``)."""
    alone = False
    for _, line in clean_lines(text[:RECOGNISED_CHARS], file=""):
        words = line.split()
        if len(words) < 2 or not _GPU.fullmatch(words[0]) or not _CELLS.fullmatch(words[1]):
            continue
        cells = "".join(w for w in words[1:] if _CELLS.fullmatch(w))
        if "X" in cells and _FAR_CELL.search(cells):
            return True
        alone = alone or words[1] == "X"
    return alone and "CPU Affinity" in text


def parse_topo_m(text: str, *, file: str) -> TopoMatrix:
    """The first matrix in ``text``. Raises UsageError, naming the line, where there is none."""
    lines = clean_lines(text, file=file)
    start, columns, labels = _header(lines, file)
    body = lines[start:]
    if columns:
        rows, problems, more = _rows(body, columns, labels)
    else:
        rows, problems, more, columns = _headless(body, file)
    if not rows:
        raise UsageError(
            "a header of nvidia-smi topo -m without a row",
            where=f"{file}:{start}",
            expected="rows such as 'GPU0  X  NV12'",
            fix="paste the whole output of nvidia-smi topo -m",
        )
    return TopoMatrix(
        columns=columns,
        rows=rows,
        labels=labels,
        nic_names={m[1]: m[2] for _, line in body if (m := _LEGEND.fullmatch(line))},
        has_header=start > 0,
        more_matrices=more,
        problems=tuple(problems),
    )


def _header(
    lines: Sequence[tuple[int, str]], file: str
) -> tuple[int, tuple[str, ...], tuple[Label, ...]]:
    """Index after the header, its columns and labels; (0, (), ()) where no line is one."""
    for i, (number, line) in enumerate(lines):
        found = _as_header(line)
        if found is None:
            continue
        columns, labels = found
        after = i + 1
        while (
            not labels and after < len(lines) and (wrapped := _as_wrapped_header(lines[after][1]))
        ):
            columns, labels, after = columns + wrapped[0], wrapped[1], after + 1
        check_count(len(columns), where=f"{file}:{number}")
        if len(set(columns)) < len(columns):
            twice = next(c for c in columns if columns.count(c) > 1)
            raise UsageError(
                f"two columns are called {twice!r}",
                where=f"{file}:{number}",
                expected="each device once: the header of one host",
            )
        return after, columns, labels
    return 0, (), ()


def _as_header(line: str) -> tuple[tuple[str, ...], tuple[Label, ...]] | None:
    """Columns and labels of a header line; None for any other line."""
    found = _as_wrapped_header(line)
    if found is None or not any(c.startswith("GPU") for c in found[0]):
        return None
    columns, labels = found
    return found if labels or len(columns) > 1 else None


def _as_wrapped_header(line: str) -> tuple[tuple[str, ...], tuple[Label, ...]] | None:
    columns: list[str] = []
    words = line.split()
    while words and words[0] not in _LABEL_WORDS:
        word = words.pop(0)
        if _NUMBERED_RUN.fullmatch(word):
            columns += _NUMBERED.findall(word)
        elif _DEVICE.fullmatch(word) and not _CELLS.fullmatch(word):
            columns.append(word)
        else:
            return None
    if any(w not in _LABEL_WORDS for w in words) or not (columns or words):
        return None
    found = {match.lastgroup for match in _LABELS.finditer(" ".join(words))}
    return tuple(columns), tuple(label for label in ORDER if label in found)


def _rows(
    lines: Sequence[tuple[int, str]], columns: tuple[str, ...], labels: tuple[Label, ...]
) -> tuple[dict[str, TopoRow], list[Problem], int]:
    """Rows under a header until the next matrix begins, their problems, and how many matrices follow."""
    rows: dict[str, TopoRow] = {}
    problems: list[Problem] = []
    for number, line in _joined(lines, columns):
        name = line.split(maxsplit=1)[0]
        if name in rows:
            break
        row, found = _row(name, number, line, columns, labels)
        rows[name] = row
        problems += found
    first = next(iter(rows), None)
    return rows, problems, max(0, sum(_starts_row(line, first) for _, line in lines) - 1)


def _starts_row(line: str, name: str | None) -> bool:
    words = line.split(maxsplit=2)[:2]
    return len(words) == 2 and words[0] == name and bool(_CELLS.fullmatch(words[1]))


def _joined(lines: Sequence[tuple[int, str]], columns: tuple[str, ...]) -> list[tuple[int, str]]:
    """Row lines, each with the wrapped rest that the terminal put on the next line."""
    known, joined = set(columns), list[tuple[int, str]]()
    for i, (number, line) in enumerate(lines):
        words = line.split(maxsplit=2)
        if not words:
            continue
        if words[0] in known and not _LEGEND.fullmatch(line) and _as_header(line) is None:
            joined.append((number, line))
        elif joined and _CELLS.fullmatch(words[0]) and "=" not in line and lines[i - 1][1].strip():
            joined[-1] = (joined[-1][0], f"{joined[-1][1]} {line}")
    return joined


def _row(
    name: str, number: int, line: str, columns: tuple[str, ...], labels: tuple[Label, ...]
) -> tuple[TopoRow, list[Problem]]:
    problems: list[Problem] = []
    fields = [f.strip() for f in line.split("\t")]
    cells: list[str | None]
    if all(_CELL.fullmatch(f) for f in fields[1 : len(columns) + 1]) and len(fields) > len(columns):
        cells = list(fields[1 : len(columns) + 1])
        affinity = by_tabs(fields[len(columns) + 1 :])
    else:
        cells, tail, problems = _by_words(name, number, line, len(columns))
        affinity, ambiguous = by_shape(tail, labels)
        if ambiguous:
            said = f"row {name}: {' '.join(tail)!r} under {len(labels)} affinity columns"
            problems.append(Problem("affinity", number, said))
    cells = [_plausible(c, name, number, problems) for c in cells]
    row = TopoRow(name, number, tuple(cells), **affinity)
    return _aligned(row, columns, problems)


def _by_words(
    name: str, number: int, line: str, count: int
) -> tuple[list[str | None], list[str], list[Problem]]:
    """Cells (None: unreadable or torn off), the words after them, and what is wrong."""
    cells: list[str | None] = []
    problems: list[Problem] = []
    words = line.split()[1:]
    while words and len(cells) < count:
        word = words[0]
        if _CELLS.fullmatch(word):
            cells += _CELL.findall(word)
        elif re.match(r"\d|N/A$", word):
            break
        else:
            problems.append(Problem("unreadable", number, f"row {name}: cell {word[:20]!r}"))
            cells.append(None)
        words.pop(0)
    if len(cells) > count:
        problems.append(
            Problem("extra", number, f"row {name}: {len(cells)} cells for {count} columns")
        )
    if len(cells) < count:
        problems.append(Problem("torn", number, f"row {name}: {len(cells)} of {count} cells"))
    return (cells + [None] * count)[:count], words, problems


def _plausible(cell: str | None, name: str, number: int, problems: list[Problem]) -> str | None:
    if cell is None or not cell.startswith("NV") or 0 < int(cell[2:]) <= MOST_LINKS:
        return cell
    problems.append(Problem("unreadable", number, f"row {name}: cell {cell!r}"))
    return None


def _aligned(
    row: TopoRow, columns: tuple[str, ...], problems: list[Problem]
) -> tuple[TopoRow, list[Problem]]:
    """The row, without its cells when its X stands under another column or it has several."""
    places = [i for i, cell in enumerate(row.cells) if cell == "X"]
    own = columns.index(row.name)
    if places == [own] or (not places and row.cells[own] is None):
        return row, problems
    under = ", ".join(columns[i] for i in places) or "no column"
    problem = Problem("misaligned", row.line, f"row {row.name}: its X stands under {under}")
    return replace(row, cells=(None,) * len(columns)), [*problems, problem]


def _headless(
    lines: Sequence[tuple[int, str]], file: str
) -> tuple[dict[str, TopoRow], list[Problem], int, tuple[str, ...]]:
    """A matrix whose header is lost: the columns that have rows, found by where each row's X stands."""
    named: dict[int, str] = {}
    for _, line in lines:
        words = line.split()
        if len(words) < 2 or not _DEVICE.fullmatch(words[0]) or not _CELLS.fullmatch(words[1]):
            continue
        cells = [c for w in words[1:] if _CELLS.fullmatch(w) for c in _CELL.findall(w)]
        if cells.count("X") == 1 and words[0] not in named.values():
            named.setdefault(cells.index("X"), words[0])
    if not named:
        raise UsageError(
            "no matrix of nvidia-smi topo -m",
            where=f"{file}:1",
            expected="a header with GPU0, … and rows such as 'GPU0  X  NV12'",
        )
    check_count(max(named) + 1, where=f"{file}:1")
    every = tuple(named.get(i, f"?{i}") for i in range(max(named) + 1))
    rows, problems, more = _rows(lines, every, ())
    kept = [i for i, name in enumerate(every) if not name.startswith("?")]
    return (
        {n: replace(r, cells=tuple(r.cells[i] for i in kept)) for n, r in rows.items()},
        [p for p in problems if p.kind != "extra"],
        more,
        tuple(every[i] for i in kept),
    )
