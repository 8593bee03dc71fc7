"""A baseline as a YAML file that people read and programs check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.formats.fields import at, mapping, number, sequence, short, text, whole
from clusterlab.formats.strict_yaml import Document, read_yaml
from clusterlab.verdict.against.noise import BANDS, Noise
from clusterlab.verdict.against.side import KEY, MOST_US, Timed
from clusterlab.verdict.baseline.model import VERSIONS, Baseline, Made, Reference

FORMAT = 1
"""Goes up when the meaning of a field changes; a file of another format is refused."""

KIND = "clusterlab baseline"
_HEAD = f"""\
# {KIND}: what each point takes here (µs, medians over runs), made by `clusterlab baseline save`.
# A run is outside beyond p50_us (loop_us where there are no medians) × (1 + slower), or below × (1 - faster).
# noise: what a further run differs by, as standard deviations: of a collective in a band, and of a point.
"""
_KEYS = ("format", "kind", "made", "tolerance", "machine", "versions", "noise", "points")
_MADE = ("by", "host", "when_utc", "clusterlab", "runs")
_MACHINE = ("backend", "gpus", "layout", "fabric", "fabric_sha256", "hardware", "foreign")
_FIGURES = ("loop_us", "p50_us", "runs", "spread", "slower", "faster")
_DIGITS = 6
_MOST_NOISE = 10.0  # a standard deviation of a logarithm: 22,000 times as long


def baseline_text(baseline: Baseline) -> str:
    """The file's text."""
    import yaml

    made = baseline.made
    data = {
        "format": FORMAT,
        "kind": KIND,
        "made": {**{name: getattr(made, name) for name in _MADE}, "runs": list(made.runs)},
        "tolerance": {"from": baseline.tolerance, "stated": baseline.stated},
        "machine": {**baseline.machine, "foreign": baseline.foreign},
        "versions": dict(baseline.versions),
        "noise": {
            name: {"between": _short(n.between), "alone": _short(n.alone), "source": n.source}
            for name, n in baseline.noise.items()
        },
    }
    points = [_reference_data(one) for one in baseline.points]
    head = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    rows = yaml.safe_dump(
        points, sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None
    )
    return f"{_HEAD}{head}points:\n{rows}"


def _reference_data(one: Reference) -> dict[str, Any]:
    """A point; what is as usual (all ranks, one call at a time) is left out."""
    usual = {"ranks": None, "beside": None, "uneven": None, "aggregated": 1, "blocking": False}
    point = {name: getattr(one.point, name) for name in KEY}
    said = {k: v for k, v in point.items() if not (k in usual and v == usual[k])}
    if one.point.ranks is not None:
        said["ranks"] = list(one.point.ranks)
    return {
        **said,
        "loop_us": _short(one.point.loop_us),
        "p50_us": _short(one.point.p50_us),
        "runs": one.runs,
        "spread": _short(one.spread),
        "slower": _short(one.slower),
        "faster": _short(one.faster),
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def recognise(content: str) -> bool:
    """Whether a text is a baseline's."""
    return content.startswith(f"# {KIND}") or f"\nkind: {KIND}" in content[:4096]


def read_baseline(path: Path, content: str) -> Baseline:
    """The baseline in ``content``. Raises UsageError naming file, line and field."""
    document = read_yaml(content, file=str(path))
    mapping(document, (), _KEYS)
    if at(document, ("kind",)) != KIND:
        raise UsageError("not a baseline", where=document.where("kind"), expected=f"kind: {KIND}")
    if at(document, ("format",)) != FORMAT:
        raise UsageError(
            f"format {short(at(document, ('format',)))}",
            where=document.where("format"),
            expected=str(FORMAT),
            fix="save the baseline again with this clusterlab",
        )
    mapping(document, ("made",), _MADE)
    machine = mapping(document, ("machine",), _MACHINE)
    for key, value in machine.items():
        _of_type(document, ("machine", key), value, _MACHINE_TYPES.get(key, (str,)))
    versions = mapping(document, ("versions",), VERSIONS)
    for key, value in versions.items():
        _of_type(document, ("versions", key), value, (str, list))
    points = sequence(document, ("points",))
    if not points:
        raise UsageError("no points", where=document.where("points"), expected="reference points")
    read = tuple(_reference(document, i) for i in range(len(points)))
    _each_once(document, read)
    return Baseline(
        name=str(path),
        made=_made(document),
        tolerance=text(document, ("tolerance", "from")),
        points=read,
        stated=_share(document, ("tolerance", "stated")),
        noise=_noise(document),
        machine={name: value for name, value in machine.items() if name != "foreign"},
        versions=versions,
        foreign=bool(machine.get("foreign")),
    )


_KEY_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("dtype", "op", "timing", "beside", "uneven"), (str,)),
    **dict.fromkeys(("root", "world_size", "size_bytes", "aggregated"), (int,)),
    **dict.fromkeys(("in_place", "blocking"), (bool,)),
}
_MACHINE_TYPES: dict[str, tuple[type, ...]] = {
    "gpus": (list,),
    "hardware": (list,),
    "foreign": (bool,),
}
_NEVER_NULL = ("aggregated", "blocking")
_WORDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list of texts"}


def _of_type(
    document: Document, path: tuple[str | int, ...], value: Any, types: tuple[type, ...]
) -> None:
    """Raises UsageError where ``value`` is of no type that the field has."""
    right = type(value) in types and (
        type(value) is not list or all(type(word) is str for word in value)
    )
    if right or (value is None and path[-1] not in _NEVER_NULL):
        return
    words = " or ".join(_WORDS[one] for one in types)
    raise UsageError(short(value), where=document.where(*path), expected=words)


def _made(document: Document) -> Made:
    runs = sequence(document, ("made", "runs"))
    said = {name: text(document, ("made", name), default="?") for name in _MADE[:-1]}
    return Made(**said, runs=tuple(map(str, runs)))


def _noise(document: Document) -> dict[str, Noise]:
    said = mapping(document, ("noise",), BANDS, optional=True)
    found = {}
    for name in said:
        mapping(document, ("noise", name), ("between", "alone", "source"))
        found[name] = Noise(
            _positive(document, ("noise", name, "between"), most=_MOST_NOISE),
            _positive(document, ("noise", name, "alone"), most=_MOST_NOISE),
            text(document, ("noise", name, "source")),
        )
    if found and len(found) < len(BANDS):
        raise UsageError(
            f"only {', '.join(found)}", where=document.where("noise"), expected=", ".join(BANDS)
        )
    return found


def _reference(document: Document, i: int) -> Reference:
    path = ("points", i)
    said = mapping(document, path, (*KEY, *_FIGURES))
    name = text(document, (*path, "collective"))
    if name not in COLLECTIVES:
        where = document.where(*path, "collective")
        raise unknown("collective", name, COLLECTIVES, where=where)
    ranks = said.get("ranks")
    if ranks is not None and not (
        isinstance(ranks, list) and all(type(rank) is int for rank in ranks)
    ):
        raise UsageError(
            short(ranks), where=document.where(*path, "ranks"), expected="a list of ranks"
        )
    known = {k: v for k, v in said.items() if k in KEY and k not in {"collective", "ranks"}}
    for key, value in known.items():
        _of_type(document, (*path, key), value, _KEY_TYPES[key])
    sizes = {k: whole(document, (*path, k)) for k in ("size_bytes", "world_size")}
    p50 = at(document, (*path, "p50_us"))
    point = Timed(
        **{
            **known,
            **sizes,
            "collective": name,
            "ranks": None if ranks is None else tuple(ranks),
            "loop_us": _positive(document, (*path, "loop_us")),
            "p50_us": None if p50 is None else _positive(document, (*path, "p50_us")),
        }
    )
    return Reference(
        point=point,
        runs=whole(document, (*path, "runs")),
        spread=_share(document, (*path, "spread"), least=0.0, most=100.0),
        slower=_share(document, (*path, "slower"), most=100.0),
        faster=_share(document, (*path, "faster")),
    )


def _each_once(document: Document, references: tuple[Reference, ...]) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for i, one in enumerate(references):
        if one.point.key in seen:
            raise UsageError(
                f"the same point as points[{seen[one.point.key]}]",
                where=document.where("points", i),
                expected="each point once",
            )
        seen[one.point.key] = i


def _positive(document: Document, path: tuple[str | int, ...], *, most: float = MOST_US) -> float:
    value = number(document, path, required=True)
    if value is None or not 0 < value <= most:
        expected = f"a number above 0, at most {most:g}"
        raise UsageError(short(value), where=document.where(*path), expected=expected)
    return value


def _share(
    document: Document, path: tuple[str | int, ...], *, least: float = 1e-9, most: float = 1.0
) -> float | None:
    value = number(document, path)
    if value is not None and not least <= value <= most:
        raise UsageError(
            short(value), where=document.where(*path), expected="a share above 0, or null"
        )
    return value
