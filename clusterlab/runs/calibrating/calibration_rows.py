"""What was measured, from files and run directories: each row with what ``predict`` is asked for it."""

from __future__ import annotations

import hashlib
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.cost.host_overhead import LAUNCH_US
from clusterlab.cost.issue import issue_of
from clusterlab.cost.scoring.measured import MAX_FILE_BYTES, Measured, MeasuredPoint, measured_in
from clusterlab.cost.scoring.scored import requests
from clusterlab.cost.types import Issue, PredictRequest
from clusterlab.formats.measured.plausible import named
from clusterlab.records.documents import FABRIC, PLACEMENT, read_placement
from clusterlab.records.reading import is_there, open_regular
from clusterlab.records.run_dir import RUN, RunDir, open_run
from clusterlab.records.store import RECORDS, latest_rows, read_records
from clusterlab.runs.row_request import row_request
from clusterlab.runs.run_fabric import fabric_of_run
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.match import place_like

STANDARD_INPUT = "-"
_LAUNCH_BOUND = 2.0
"""An eager call that took less than this many times its own launch says nothing of the fabric."""


@dataclass(frozen=True, slots=True)
class AskedRow:
    """A measured point, what is asked for it (or why nothing can be), and the number of its file. One that
    does not fit says nothing of the fabric: it took no longer than issuing calls does.
    """

    point: MeasuredPoint
    request: PredictRequest | ClusterlabError
    file: int
    fits: bool = True

    @property
    def issue(self) -> Issue:
        """How its calls were issued; a file says nothing of it and is nccl-tests'."""
        return "library" if isinstance(self.request, ClusterlabError) else self.request.issue


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows; ``files`` are their names and SHA-256, ``notes`` say what was left out."""

    rows: tuple[AskedRow, ...]
    files: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def read_rows(inputs: Sequence[Path], fabric: Fabric | None) -> Rows:
    """The rows of CSV files and run directories, the same content once. ``fabric`` takes the place of what a
    file says. Raises UsageError for one that cannot be read or holds nothing measured.
    """
    rows: list[AskedRow] = []
    files: list[tuple[str, str]] = []
    notes: list[str] = []
    seen: dict[str, str] = {}
    for path in inputs:
        name, content = _content(path)
        digest = hashlib.sha256(content).hexdigest()
        if digest in seen:
            notes.append(f"{name}: the same as {seen[digest]}, counted once")
            continue
        seen[digest] = name
        found, left_out = _of_run(path, fabric) if path.is_dir() else _of_csv(content, name, fabric)
        rows += [AskedRow(one.point, one.request, len(files), one.fits) for one in found]
        files.append((name, digest))
        notes += left_out
    return Rows(tuple(rows), tuple(files), tuple(notes))


def _content(path: Path) -> tuple[str, bytes]:
    """A file's bytes; of a run directory those of its rows."""
    if str(path) == STANDARD_INPUT:
        return "standard input", sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    file = path / RECORDS if path.is_dir() else path
    if path.is_dir() and not is_there(path / RUN):
        raise UsageError(
            f"a folder without {RUN}", where=str(path), expected="a CSV file or a run directory"
        )
    if path.exists() and not path.is_dir() and not path.is_file() and not path.is_fifo():
        raise UsageError(
            "not a regular file", where=str(path), expected="a CSV file or a run directory"
        )
    try:
        # A file that was named may be a pipe; of a run none is.
        with open_regular(file) if path.is_dir() else file.open("rb") as stream:
            return str(path), stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        what = "a run without rows" if path.is_dir() else "no such file"
        raise UsageError(
            what, where=str(path), expected="a CSV file or a run directory with measurements"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None


def _of_csv(content: bytes, name: str, fabric: Fabric | None) -> tuple[list[AskedRow], list[str]]:
    measured = measured_in(io.BytesIO(content), file=name)
    if not measured.points:
        raise UsageError(
            f"no measurement that counts in {measured.rows} rows",
            where=name,
            expected='rows with a size and a time (with a column health: "healthy")',
            fix=named(measured.unusable) or None,
        )
    asked = requests(measured.points, fabric)
    return [AskedRow(point, request, 0) for point, request in asked], list(_left_out(measured))


def _left_out(measured: Measured) -> Iterator[str]:
    for count, what in (
        (measured.unhealthy, 'rows of tables that are not "healthy"'),
        (measured.no_time, "rows without a time (or of size 0)"),
        (
            len(measured.unusable),
            f"rows with figures that nothing measures: {named(measured.unusable)}",
        ),
    ):
        if count:
            yield f"{measured.file}: {count} {what} left out"


def _of_run(path: Path, fabric: Fabric | None) -> tuple[list[AskedRow], list[str]]:
    """The rows that all ranks of a run of NCCL measured alone, on the fabric that its predictions were made
    for.
    """
    run = open_run(path)
    placement = read_placement(run.path)
    rows = [row for row in latest_rows(read_records(run.path).rows).rows if _counts(row)]
    if placement is None or not rows:
        raise UsageError(
            f"no {PLACEMENT}" if placement is None else "no row that all ranks measured",
            where=str(path),
            expected="a run that measured",
        )
    backends = sorted({row.backend for row in rows})
    if backends != ["nccl"]:
        raise UsageError(
            f"measured with {', '.join(backends)}",
            where=str(path),
            expected="a run of NCCL or RCCL",
            fix="for gloo on this host: clusterlab self-calibrate" if "gloo" in backends else None,
        )
    found = fabric or _fabric_of(run)
    placed = place_like(found, placement)
    attempts = {a.number: a.context.versions for a in run.info.attempts}
    asked = [
        _asked(row, found, placed, _version(row, attempts.get(row.attempt) or {}))
        for row in rows
        if not row.wrong
    ]
    notes = []
    if wrong := len(rows) - len(asked):
        notes.append(f"{path}: {wrong} rows left out that had wrong data")
    if launches := sum(not one.fits for one in asked):
        notes.append(
            f"{path}: {launches} eager rows not fitted that took less than "
            f"{_LAUNCH_BOUND * LAUNCH_US['eager']:.0f} µs (issuing calls, not the fabric)"
        )
    return asked, notes


def _counts(row: Row) -> bool:
    """Whether it is one plain call of all ranks after the other, which is what ``predict`` speaks of."""
    return row.ranks is None and row.beside is None and row.uneven is None and row.aggregated == 1


def _version(row: Row, versions: Mapping[str, str | None]) -> str:
    """The library's own word, else the package's beside it."""
    return row.library_version or versions.get("nccl") or ""


def _fabric_of(run: RunDir) -> Fabric:
    found = fabric_of_run(run, unchanged=False)
    if found is None:
        raise UsageError(
            f"no {FABRIC}, or none whose design can still be read", where=str(run.path),
            expected="the fabric of its hosts", fix="name it with --fabric",
        )  # fmt: skip
    return found


def _asked(row: Row, fabric: Fabric, placed: Placement, version: str) -> AskedRow:
    hosts = len(placed.hosts)
    point = MeasuredPoint(
        table=f"{fabric.name} {row.collective} {row.world_size} {version}".strip(),
        system=fabric.name,
        gpu=placed.ranks[0].gpu_name or "",
        n_nodes=hosts,
        gpus_per_node=-(-placed.world_size // hosts),
        n_ranks=row.world_size,
        intra_fabric="",
        inter_fabric="",
        collective=row.collective,
        dtype=row.dtype,
        in_place=row.in_place,
        size_bytes=row.size_bytes,
        time_us=row.time_us_loop,
        nccl_version=version,
        algo="",
        proto="",
        published=False,
        line=0,
        samples=1,
    )
    issue = issue_of(row.timing)
    fits = issue != "eager" or row.time_us_loop > _LAUNCH_BOUND * LAUNCH_US["eager"]
    request = row_request(row, fabric, placed, version, in_place=row.in_place)
    return AskedRow(point, request, 0, fits)


def reasons(rows: Sequence[AskedRow]) -> Counter[str]:
    """Why rows cannot be predicted, how many each."""
    return Counter(str(r.request) for r in rows if isinstance(r.request, ClusterlabError))
