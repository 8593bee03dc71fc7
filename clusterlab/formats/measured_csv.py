"""Tables of measured collectives as CSV, one row a size: text to plain rows.

Two shapes are read. A table of one machine at a time (as NVIDIA aiconfigurator's, from nccl-tests)::

    system,nccl_version,collective,dtype,n_ranks,size_bytes,time_us

and tables gathered from many places, each with an id and a description of its machines::

    table_id,system,gpu,n_nodes,gpus_per_node,n_ranks,intra_fabric,inter_fabric,collective,dtype,in_place,
    size_bytes,time_us,algbw_GBps,busbw_GBps,nccl_version,algo,proto,health

Further columns are left alone. An empty cell is not known. ``size_bytes`` is nccl-tests' size.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean

REQUIRED = ("system", "collective", "n_ranks", "size_bytes", "time_us")
MAX_ROWS = 2_000_000
_MAX_COUNT = 1 << 53


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row as it stands at ``line``. None, and empty words: the cell or its column is absent."""

    line: int
    system: str
    collective: str
    n_ranks: int
    size_bytes: int
    time_us: float | None
    busbw_GBps: float | None = None
    algbw_GBps: float | None = None
    table_id: str = ""
    gpu: str = ""
    n_nodes: int | None = None
    gpus_per_node: int | None = None
    intra_fabric: str = ""
    inter_fabric: str = ""
    dtype: str = ""
    in_place: bool | None = None
    nccl_version: str = ""
    algo: str = ""
    proto: str = ""
    health: str | None = None


def parse_measured(text: str, *, file: str) -> list[CsvRow]:
    """The rows of one file. Raises UsageError naming file, line and column; ``file`` is its name."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        return list(_rows(reader, file))
    except csv.Error as error:
        raise UsageError(
            f"not CSV: {error}", where=f"{file}:{reader.line_num}", expected="comma-separated rows"
        ) from None


def _rows(reader: Iterator[list[str]], file: str) -> Iterator[CsvRow]:
    header = [name.strip() for name in next(reader, [])]
    _check_header(header, file)
    for count, cells in enumerate(reader):
        line = reader.line_num  # type: ignore[attr-defined]  # csv.reader's, of which no type is public
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise UsageError(
                f"{len(cells)} cells",
                where=f"{file}:{line}",
                expected=f"the header's {len(header)} columns",
                fix="quote cells that contain commas",
            )
        if count >= MAX_ROWS:
            raise UsageError(
                "too many rows", where=f"{file}:{line}", expected=f"at most {MAX_ROWS}"
            )
        named = zip(header, cells, strict=True)
        yield _row(_Cells({k: v.strip() for k, v in named}, file, line))


def _check_header(header: list[str], file: str) -> None:
    for name in REQUIRED:
        # Some tables keep busbw alone.
        if name not in header and not (name == "time_us" and "busbw_GBps" in header):
            raise UsageError(
                f"no column {name!r}",
                where=f"{file}:1",
                expected="a header with " + ", ".join(REQUIRED),
                fix=did_you_mean(name, header) or _no_table(header),
            )
    for name in header:
        if name and header.count(name) > 1:
            raise UsageError(f"two columns {name!r}", where=f"{file}:1", expected="each name once")


def _no_table(header: list[str]) -> str | None:
    """What to do with a file that has none of the columns."""
    return None if set(header) & set(REQUIRED) else "`clusterlab import LOG -o rows.csv` reads logs"


@dataclass(frozen=True, slots=True)
class _Cells:
    """One row's cells by column, and where they stand."""

    cells: Mapping[str, str]
    file: str
    line: int

    def text(self, name: str) -> str:
        return self.cells.get(name, "")

    def refuse(self, name: str, expected: str) -> UsageError:
        shown = self.text(name)[:40]
        return UsageError(
            f"{name} is {shown!r}", where=f"{self.file}:{self.line}", expected=expected
        )

    def words(self, name: str) -> str:
        """Text that a row cannot do without."""
        if not self.text(name):
            raise self.refuse(name, "a name")
        return self.text(name)

    def whole(self, name: str, *, least: int) -> int | None:
        text = self.text(name)
        if not text:
            return None
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not least <= value <= _MAX_COUNT:
            raise self.refuse(name, f"a whole number, {least} or more")
        return value

    def needed(self, name: str, *, least: int) -> int:
        value = self.whole(name, least=least)
        if value is None:
            raise self.refuse(name, f"a whole number, {least} or more")
        return value

    def figure(self, name: str) -> float | None:
        text = self.text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise self.refuse(name, "a number, 0 or more, or nothing")
        return value

    def flag(self, name: str) -> bool | None:
        text = self.text(name).lower()
        known = {"": None, "0": False, "false": False, "1": True, "true": True}
        if text not in known:
            raise self.refuse(name, "0 or 1")
        return known[text]


def _system(cells: _Cells) -> str:
    """The machine's name; its GPU stands for it where a measurement does not say."""
    found = cells.text("system") or cells.text("gpu")
    if not found:
        raise UsageError(
            "neither system nor gpu is said",
            where=f"{cells.file}:{cells.line}",
            expected="a machine as h100_sxm, or its GPU",
            fix="fill the column, or write the file with `clusterlab import --system NAME`",
        )
    return found


def _row(cells: _Cells) -> CsvRow:
    return CsvRow(
        line=cells.line,
        system=_system(cells),
        collective=cells.words("collective"),
        n_ranks=cells.needed("n_ranks", least=1),
        size_bytes=cells.needed("size_bytes", least=0),
        time_us=cells.figure("time_us"),
        busbw_GBps=cells.figure("busbw_GBps"),
        algbw_GBps=cells.figure("algbw_GBps"),
        table_id=cells.text("table_id"),
        gpu=cells.text("gpu"),
        n_nodes=cells.whole("n_nodes", least=1),
        gpus_per_node=cells.whole("gpus_per_node", least=1),
        intra_fabric=cells.text("intra_fabric"),
        inter_fabric=cells.text("inter_fabric"),
        dtype=cells.text("dtype"),
        in_place=cells.flag("in_place"),
        nccl_version=cells.text("nccl_version"),
        algo=cells.text("algo"),
        proto=cells.text("proto"),
        health=cells.text("health").lower() if "health" in cells.cells else None,
    )
