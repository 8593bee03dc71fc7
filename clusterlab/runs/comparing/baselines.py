"""Making and opening baselines: our YAML, ReFrame's references, and runs or files as baselines of one run."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from clusterlab import __version__
from clusterlab.core.errors import UsageError
from clusterlab.formats.reframe import parse_reframe, render_reframe
from clusterlab.formats.reframe import recognise as is_reframe
from clusterlab.records.run_dir import utc_text
from clusterlab.runs.comparing.baseline_file import read_baseline
from clusterlab.runs.comparing.baseline_file import recognise as is_baseline
from clusterlab.runs.comparing.baseline_reframe import from_reframe, to_reframe, world_size_of
from clusterlab.runs.comparing.sides import read_side, read_sides
from clusterlab.verdict.against.side import Side
from clusterlab.verdict.baseline.make import make_baseline
from clusterlab.verdict.baseline.model import Baseline, Made

_EXPECTED = "a baseline, ReFrame's references, a run, a CSV, or nccl-tests' text or -J file"


def baseline_of(
    name: str,
    runs: Sequence[str],
    *,
    tolerance: float | None = None,
    allow_noisy: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> Baseline:
    """A baseline of runs and files, made now by this user; ``told`` hears what of them is left out. Raises
    UsageError and NoVerdictError.
    """
    sides = read_sides(runs)
    for note in (note for side in sides for note in side.notes):
        told(note)
    made = Made(
        by=_user(),
        host=socket.gethostname(),
        when_utc=utc_text(datetime.now(UTC)),
        clusterlab=__version__,
        runs=tuple(side.run_id or side.name for side in sides),
    )
    return make_baseline(name, sides, made, tolerance=tolerance, allow_noisy=allow_noisy)


def open_baseline(name: str, side: Side, *, system: str | None = None) -> Baseline:
    """The baseline in a file, to judge ``side``: ours, ReFrame's references (one ``system`` of them), or
    measurements (a run, nccl-tests' output, a CSV), which are then a baseline of one run.
    """
    path = Path(name)
    if path.is_file():
        try:
            content = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot be read: {error.strerror}", where=name) from None
        except UnicodeDecodeError:
            raise UsageError("not text", where=name, expected=_EXPECTED) from None
        if is_baseline(content):
            return read_baseline(path, content)
        if is_reframe(content) and _looks_like_references(content):
            references = parse_reframe(content, file=name)
            return from_reframe(
                references, file=name, world_size=world_size_of(side), system=system
            )
    if system is not None:
        raise UsageError(
            f"{name} has no systems", where="--system", expected="a file of ReFrame's references"
        )
    reference = read_side(name)
    made = Made("?", "?", "?", __version__, (reference.run_id or reference.name,))
    return make_baseline(name, [reference], made, allow_noisy=True)


def _looks_like_references(content: str) -> bool:
    """nccl-tests' -J and our records are mappings, too."""
    return '"nccl_version"' not in content[:65536] and '"world_size"' not in content[:65536]


def reframe_text(baseline: Baseline, path: Path, *, system: str) -> str:
    """ReFrame's references of a baseline; JSON where the file is called so."""
    head = "" if path.suffix == ".json" else _head(baseline)
    return head + render_reframe(
        to_reframe(baseline, system=system), as_json=path.suffix == ".json"
    )


def _head(baseline: Baseline) -> str:
    made = baseline.made
    ways = sorted({f"{r.point.dtype}, {r.point.timing}" for r in baseline.points})
    return (
        f"# bus bandwidths by clusterlab {made.clusterlab}, {made.when_utc}, {made.by} on {made.host}\n"
        f"# of {', '.join(made.runs)} ({'; '.join(ways)})\n# tolerance: {baseline.tolerance}\n"
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "?"
