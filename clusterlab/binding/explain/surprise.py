"""A surprise, what would cure it, and how a cure changes the lines of a job."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

from clusterlab.binding.explain.command_line import CommandLine
from clusterlab.binding.explain.predict import Prediction
from clusterlab.formats.hostlist import compress_hostlist


@dataclass(frozen=True, slots=True)
class Change:
    """Options and variables to set on one line, the submitted one for ``step`` None.

    An option with the value None is left out.
    """

    step: int | None
    options: tuple[tuple[str, str | None], ...] = ()
    environ: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Cure:
    """Changes that may help, and the words that advise them."""

    changes: tuple[Change, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Surprise:
    """One problem: its ``kind``, what it is ``about`` (tasks, GPUs, nodes), and cures, the best first.

    ``info``: it depends on the program whether this is a problem at all.
    """

    kind: str
    text: str
    about: frozenset[Hashable] = frozenset()
    cures: tuple[Cure, ...] = ()
    info: bool = False


def on_nodes(found: Iterable[tuple[str, Surprise]]) -> Iterator[Surprise]:
    """``n[0-3]: what``: what is said of several nodes is said once."""
    nodes: dict[tuple[str, str], list[str]] = {}
    merged: dict[tuple[str, str], Surprise] = {}
    for node, one in found:
        key = one.kind, one.text
        seen = merged.setdefault(key, one)
        merged[key] = replace(seen, about=seen.about | one.about)
        if node not in nodes.setdefault(key, []):
            nodes[key].append(node)
    for key, one in merged.items():
        yield replace(one, text=f"{compress_hostlist(nodes[key])}: {one.text}")


def cures_on(
    found: Prediction, step: int, options: dict[str, str | None], words: str
) -> Iterator[Cure]:
    """The same options where they may stand: on the step, on the job, on both."""
    pairs = tuple(options.items())
    if found.job is None or found.job.command == "srun":
        yield Cure((Change(None, pairs),), words)
        return
    command = found.job.command
    yield Cure((Change(step, pairs),), f"{words} on step {step}")
    yield Cure((Change(None, pairs),), f"{words} on {command}")
    both = Change(None, pairs), Change(step, pairs)
    yield Cure(both, f"{words} on {command} and on step {step}")


def changed(
    cure: Cure, submit: CommandLine, steps: Iterable[CommandLine]
) -> tuple[CommandLine, list[CommandLine]]:
    """The lines of the job with ``cure``."""
    lines = list(steps)
    for change in cure.changes:
        if change.step is None:
            submit = _with(submit, change)
        else:
            lines[change.step] = _with(lines[change.step], change)
    return submit, lines


def _with(line: CommandLine, change: Change) -> CommandLine:
    names = {name for name, _ in change.options}
    kept = tuple(pair for pair in line.options if pair[0] not in names)
    added = tuple((name, value) for name, value in change.options if value is not None)
    return replace(line, options=kept + added, environ={**line.environ, **dict(change.environ)})
