"""Measured constants of one system, and what they are good for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.types import Constant
from clusterlab.formats.fields import at, mapping, number, sequence, text, whole
from clusterlab.formats.strict_yaml import Document, read_yaml

FORMAT = 1
"""Goes up when the meaning of a constant changes; files of another format are measured again."""


@dataclass(frozen=True, slots=True)
class Residual:
    """How well the constants meet the points of one collective that they were *not* fitted on.

    ``error_p50_pct`` and ``error_p90_pct``: quantiles of |predicted / measured - 1|. ``noise_pct``: median
    difference of one measurement from the median of its repetitions. ``low`` and ``high``: measured over
    predicted, between which at least ``coverage`` (0 to 1) of the points lie.
    """

    collective: str
    points: int
    error_p50_pct: float
    error_p90_pct: float
    noise_pct: float
    low: float
    high: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants fitted to measurements of one system by one backend.

    ``system`` describes the system for people, ``fingerprint`` is its hash. Constants hold for
    ``world_sizes`` and ``sizes_bytes`` (both inclusive).
    """

    system: str
    fingerprint: str
    backend: str
    library: str
    world_sizes: tuple[int, int]
    sizes_bytes: tuple[int, int]
    date_utc: str
    constants: tuple[Constant, ...]
    residuals: tuple[Residual, ...] = ()
    source: str = ""

    def value(self, name: str) -> float:
        """The constant called ``name``. Raises UsageError when it has none."""
        return self.constant(name).value

    def constant(self, name: str) -> Constant:
        """The constant called ``name`` with unit and source."""
        for constant in self.constants:
            if constant.name == name:
                return constant
        raise unknown(
            "constant", name, (c.name for c in self.constants), where=self.source or "calibration"
        )

    def has(self, name: str) -> bool:
        """Whether there is a constant called ``name``."""
        return any(c.name == name for c in self.constants)

    def residual(self, collective: str) -> Residual | None:
        """How well it meets ``collective``, where that was measured."""
        return next((r for r in self.residuals if r.collective == collective), None)


def check_fits(
    calibration: Calibration, *, backend: str, fingerprint: str | None = None, system: str = ""
) -> None:
    """Raise UsageError when the constants belong to another system or backend."""
    where = calibration.source or "calibration"
    if calibration.backend != backend:
        raise UsageError(
            f"made with backend {calibration.backend}",
            where=where,
            expected=backend,
            fix="calibrate again with this backend",
        )
    if fingerprint is not None and calibration.fingerprint != fingerprint:
        raise UsageError(
            f"made on another system: {calibration.system}",
            where=where,
            expected=system or fingerprint,
            fix="calibrate again on this one",
        )


def save_calibration(calibration: Calibration, path: Path) -> None:
    """Write ``path`` atomically. Raises StorageError when it cannot be written."""
    import yaml

    data = asdict(calibration)
    del data["source"]
    plain = {"format": FORMAT, **_lists(data)}
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), "utf-8")
        part.replace(path)
    except OSError as error:
        raise StorageError(f"cannot be written: {error.strerror}", where=str(path)) from None


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _lists(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_lists(v) for v in value]
    return value


def load_calibration(path: Path) -> Calibration:
    """The calibration in ``path``. Raises UsageError naming file, line and field."""
    return calibration_from_yaml(calibration_text(path), file=str(path))


def calibration_text(path: Path) -> str:
    """The text of a calibration's file, of a host or of a system. Raises UsageError naming it."""
    expected = "a calibration (YAML)"
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=str(path), expected=expected
        ) from None
    except UnicodeDecodeError:
        raise UsageError("not text", where=str(path), expected=expected) from None


def calibration_from_yaml(content: str, *, file: str) -> Calibration:
    """The calibration that ``save_calibration`` wrote as text."""
    document = read_yaml(content, file=file)
    names = tuple(f.name for f in fields(Calibration) if f.name != "source")
    mapping(document, (), ("format", *names))
    if at(document, ("format",)) != FORMAT:
        raise UsageError(
            f"format {at(document, ('format',))!r}",
            where=document.where("format"),
            expected=str(FORMAT),
            fix="calibrate again",
        )
    return Calibration(
        **{
            name: text(document, (name,))
            for name in ("system", "fingerprint", "backend", "library", "date_utc")
        },
        world_sizes=_span(document, "world_sizes"),
        sizes_bytes=_span(document, "sizes_bytes"),
        constants=tuple(
            _record(document, ("constants", i), Constant)
            for i in range(len(sequence(document, ("constants",))))
        ),
        residuals=tuple(
            _record(document, ("residuals", i), Residual)
            for i in range(len(sequence(document, ("residuals",))))
        ),
        source=file,
    )


def _span(document: Document, name: str) -> tuple[int, int]:
    if len(sequence(document, (name,))) != 2:
        raise UsageError("not a range", where=document.where(name), expected="[lowest, highest]")
    low, high = (whole(document, (name, i)) for i in range(2))
    if low > high:
        raise UsageError(f"{low} to {high}", where=document.where(name), expected="a rising range")
    return low, high


_Kind = TypeVar("_Kind", Constant, Residual)


def _record(document: Document, path: tuple[str | int, ...], kind: type[_Kind]) -> _Kind:
    """A flat dataclass of texts and numbers."""
    described = {f.name: f.type for f in fields(kind)}
    mapping(document, path, tuple(described))
    values: dict[str, Any] = {}
    for name, annotation in described.items():
        if annotation == "str":
            values[name] = text(document, (*path, name), may_be_empty=True)
            continue
        value = number(document, (*path, name), required=True)
        if value is None:
            raise UsageError("unknown", where=document.where(*path, name), expected="a number")
        values[name] = int(value) if annotation == "int" else value
    return kind(**values)
