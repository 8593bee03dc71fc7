"""``cal.yaml``: a system's calibration as a file that people read and programs check."""

from __future__ import annotations

from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path as File
from typing import Any, TypeVar, get_args

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.bands import BANDS
from clusterlab.cost.calibrated.calibration import (
    Factors,
    FittedConstant,
    Score,
    SeenCollective,
    SourceFile,
    Spread,
    SystemCalibration,
)
from clusterlab.cost.calibrated.machine import Machine
from clusterlab.cost.calibrated.parameters import NAMES, unit_of
from clusterlab.cost.calibration import calibration_text
from clusterlab.cost.effects.constants import CHIPS, NETWORKS
from clusterlab.cost.host_overhead import Launch
from clusterlab.cost.types import Issue
from clusterlab.formats.fields import at, mapping, number, sequence, short, text
from clusterlab.formats.strict_yaml import Document, Path, read_yaml

FORMAT = 1
"""Goes up when the meaning of a field changes; a file of another format is refused."""

_KIND = "NCCL on one system, by clusterlab calibrate"
_HEAD = f"""\
# {_KIND}: constants of cost/effects/formula.py on this system.
# µs, bytes, GB/s, shares. class_value: what the class of GPU or network has. factors: times on top, by size.
# residuals: measured over predicted of points that the fit had not seen. docs/how-we-predict.md has the rest.
"""
_DIGITS = 5
_MOST_FACTOR = 10.0
_FIX = "calibrate again"


def to_yaml(calibration: SystemCalibration) -> str:
    """The text of the file."""
    import yaml

    plain = asdict(calibration)
    del plain["path"]
    data = {"format": FORMAT, "kind": _KIND, **_plain(plain)}
    body = yaml.safe_dump(
        data, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
    )
    return _HEAD + str(body)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def load_system_calibration(path: File) -> SystemCalibration:
    """The calibration in ``path``. Raises UsageError naming file, line and field."""
    return from_yaml(calibration_text(path), file=str(path))


def from_yaml(content: str, *, file: str) -> SystemCalibration:
    """The calibration that ``to_yaml`` wrote; ``file`` is its name in errors and sources."""
    document = read_yaml(content, file=file)
    names = tuple(f.name for f in fields(SystemCalibration) if f.name != "path")
    if isinstance(document.data, dict) and "backend" in document.data:
        raise UsageError(
            "a self-calibration, of one host's cores", where=file, expected=_KIND,
            fix="name a file that clusterlab calibrate wrote",
        )  # fmt: skip
    mapping(document, (), ("format", "kind", *names))
    for key, wanted in (("format", FORMAT), ("kind", _KIND)):
        found = at(document, (key,))
        if found != wanted or isinstance(found, bool):
            raise UsageError(
                short(found), where=document.where(key), expected=str(wanted), fix=_FIX
            )
    read = _Reader(document)
    return SystemCalibration(
        system=text(document, ("system",)),
        machine=_machine(read),
        chip=read.one_of(("chip",), CHIPS),
        network=read.optional_one_of(("network",), NETWORKS),
        versions=tuple(read.words(("versions",))),
        through_host=read.flag(("through_host",)),
        # Files from before say neither: their rows were nccl-tests'.
        issue="library" if at(document, ("issue",)) is None else _issue(read, ("issue",)),
        launches=tuple(_launch(read, p) for p in read.rows("launches", Launch)),
        seen=tuple(_seen(read, p) for p in read.rows("seen", SeenCollective, least=1)),
        constants=tuple(_constant(read, p) for p in read.rows("constants", FittedConstant)),
        factors=tuple(_factors(read, p) for p in read.rows("factors", Factors)),
        residuals=tuple(_spread(read, p) for p in read.rows("residuals", Spread, least=1)),
        scores=tuple(_score(read, p) for p in read.rows("scores", Score)),
        sources=tuple(_source(read, p) for p in read.rows("sources", SourceFile, least=1)),
        date_utc=text(document, ("date_utc",)),
        made_by=text(document, ("made_by",)),
        path=file,
    )


_Row = TypeVar("_Row")


class _Reader:
    """The fields of one document, each checked as it is taken."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def error(self, path: Path, expected: str) -> UsageError:
        found = short(at(self.document, path))
        return UsageError(found, where=self.document.where(*path), expected=expected, fix=_FIX)

    def rows(self, name: str, kind: type[_Row], *, least: int = 0) -> list[Path]:
        """Where the entries of a list stand, each with just the fields of ``kind``."""
        count = len(sequence(self.document, (name,)))
        if count < least:
            raise self.error((name,), f"at least {least} entries")
        paths: list[Path] = [(name, i) for i in range(count)]
        for path in paths:
            mapping(self.document, path, tuple(f.name for f in fields(kind)))  # type: ignore[arg-type]
        return paths

    def words(self, path: Path) -> list[str]:
        count = len(sequence(self.document, path))
        return [text(self.document, (*path, i)) for i in range(count)]

    def one_of(self, path: Path, known: tuple[str, ...]) -> str:
        found = text(self.document, path)
        if found not in known:
            raise unknown(str(path[-1]), found, known, where=self.document.where(*path))
        return found

    def optional_one_of(self, path: Path, known: tuple[str, ...]) -> str | None:
        return None if at(self.document, path) is None else self.one_of(path, known)

    def flag(self, path: Path) -> bool:
        found = at(self.document, path)
        if not isinstance(found, bool):
            raise self.error(path, "true or false")
        return found

    def whole(self, path: Path, *, least: int = 1) -> int:
        found = at(self.document, path)
        if isinstance(found, bool) or not isinstance(found, int) or found < least:
            raise self.error(path, f"a whole number, at least {least}")
        return found

    def wholes(self, path: Path, *, least: int = 1) -> tuple[int, ...]:
        """Rising numbers, ``least`` of them or more."""
        found = tuple(self.whole((*path, i)) for i in range(len(sequence(self.document, path))))
        if len(found) < least or any(a >= b for a, b in pairwise(found)):
            raise self.error(path, f"{least} or more rising numbers")
        return found

    def figure(self, path: Path, low: float, high: float) -> float:
        found = number(self.document, path, required=True)
        if found is None or not low <= found <= high:
            raise self.error(path, f"a number from {low:g} to {high:g}")
        return found

    def optional_figure(self, path: Path, low: float, high: float) -> float | None:
        return None if at(self.document, path) is None else self.figure(path, low, high)


def _machine(read: _Reader) -> Machine:
    names = tuple(f.name for f in fields(Machine))
    mapping(read.document, ("machine",), names)

    def known(name: str) -> str | None:
        path: Path = ("machine", name)
        return None if at(read.document, path) is None else text(read.document, path)

    return Machine(
        gpu=text(read.document, ("machine", "gpu")),
        gpus_per_host=read.whole(("machine", "gpus_per_host")),
        library=read.one_of(("machine", "library"), ("nccl", "rccl")),
        links=known("links"),
        network=known("network"),
    )


def _seen(read: _Reader, path: Path) -> SeenCollective:
    sizes: Path = (*path, "sizes_bytes")
    found = [read.whole((*sizes, i)) for i in range(len(sequence(read.document, sizes)))]
    if len(found) != 2 or found[0] > found[1]:
        raise read.error(sizes, "[least, largest]")
    return SeenCollective(
        collective=read.one_of((*path, "collective"), tuple(COLLECTIVES)),
        ranks=read.wholes((*path, "ranks")),
        nodes=read.wholes((*path, "nodes")),
        sizes_bytes=(found[0], found[1]),
        rows=read.whole((*path, "rows")),
    )


def _constant(read: _Reader, path: Path) -> FittedConstant:
    name = read.one_of((*path, "name"), NAMES)
    unit = text(read.document, (*path, "unit"))
    if unit != unit_of(name):
        raise read.error((*path, "unit"), unit_of(name))
    most = 1e12
    return FittedConstant(
        name,
        read.figure((*path, "value"), 0.0, most),
        unit,
        read.figure((*path, "class_value"), 0.0, most),
    )


def _factors(read: _Reader, path: Path) -> Factors:
    sizes = read.wholes((*path, "sizes_bytes"))
    count = len(sequence(read.document, (*path, "factors")))
    if count != len(sizes):
        raise read.error((*path, "factors"), f"{len(sizes)} numbers, one for each size")
    return Factors(
        read.one_of((*path, "collective"), tuple(COLLECTIVES)),
        sizes,
        tuple(
            read.figure((*path, "factors", i), 1 / _MOST_FACTOR, _MOST_FACTOR) for i in range(count)
        ),
    )


def _spread(read: _Reader, path: Path) -> Spread:
    return Spread(
        collective=read.one_of((*path, "collective"), tuple(COLLECTIVES)),
        size_band=read.one_of((*path, "size_band"), BANDS),
        left_out=read.one_of((*path, "left_out"), ("sizes", "ranks")),
        points=read.whole((*path, "points")),
        error_p50_pct=read.figure((*path, "error_p50_pct"), 0.0, 1e6),
        error_p90_pct=read.figure((*path, "error_p90_pct"), 0.0, 1e6),
        low=read.figure((*path, "low"), 1e-4, 1.0),
        high=read.figure((*path, "high"), 1.0, 1e4),
        coverage=read.figure((*path, "coverage"), 0.0, 1.0),
    )


def _issue(read: _Reader, path: Path) -> Issue:
    issues: tuple[Issue, ...] = get_args(Issue)
    found = read.one_of(path, issues)
    return next(issue for issue in issues if issue == found)


def _launch(read: _Reader, path: Path) -> Launch:
    return Launch(
        issue=_issue(read, (*path, "issue")),
        time_us=read.figure((*path, "time_us"), 0.0, 1e6),
        low_us=read.figure((*path, "low_us"), 0.0, 1e6),
        high_us=read.figure((*path, "high_us"), 0.0, 1e6),
        points=read.whole((*path, "points")),
    )


def _score(read: _Reader, path: Path) -> Score:
    return Score(
        left_out=read.one_of((*path, "left_out"), ("sizes", "ranks")),
        points=read.whole((*path, "points")),
        mape_pct=read.figure((*path, "mape_pct"), 0.0, 1e6),
        median_pct=read.figure((*path, "median_pct"), 0.0, 1e6),
        p90_pct=read.figure((*path, "p90_pct"), 0.0, 1e6),
        coverage=read.figure((*path, "coverage"), 0.0, 1.0),
        alpha_beta_mape_pct=read.optional_figure((*path, "alpha_beta_mape_pct"), 0.0, 1e9),
        library_mape_pct=read.optional_figure((*path, "library_mape_pct"), 0.0, 1e9),
    )


def _source(read: _Reader, path: Path) -> SourceFile:
    digest = text(read.document, (*path, "sha256"))
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise read.error((*path, "sha256"), "64 hexadecimal digits")
    return SourceFile(text(read.document, (*path, "file")), digest, read.whole((*path, "rows")))
