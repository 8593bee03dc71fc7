"""``clusterlab predict --explain``: where the time of a point goes, and why NCCL goes this way, in words."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from clusterlab.cli.columns import columns
from clusterlab.core.sizes import human_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clusterlab.cost.nccl.explain import Explanation, Link, Way
    from clusterlab.cost.nccl.variable_effects import VariableEffect
    from clusterlab.cost.types import Constant, Prediction
    from clusterlab.runs.whatif import PredictedPoint

_MOVES = {
    "ring": "2 S (n-1)/n",
    "nvls": "S (1 + 1/n)",
}
"""Bytes of an all_reduce over each GPU's links, in words."""
_NEGLIGIBLE = 0.005
_UNCHANGED = 1e-9
_BETTER = 0.9
"""Share of the chosen way's time below which another one is worth a word."""


def explanation_lines(
    found: PredictedPoint, why: Explanation | None, effects: Sequence[VariableEffect] = ()
) -> Iterator[str]:
    """What is behind one prediction. ``why`` is None for gloo and for one rank."""
    p, point = found.prediction, found.point
    yield ""
    yield f"{point.collective} of {human_size(point.size_bytes)}: {_us(p.time_us)}"
    if why is not None:
        yield from _item("time", _time(p, why))
    yield from _item("bound", _bound(p))
    limit = f"{p.bottleneck.name} ({p.bottleneck.utilisation:.0%})"
    yield from _item("limited by", limit)
    if why is None:
        for a in p.alternatives:
            yield from _item("also possible", f"{_how(a.algorithm, a.protocol)}, {_us(a.time_us)}")
    else:
        if why.link is not None:
            yield from _item("busbw", _link_sentence(p, why.link, point.collective))
        yield from _item("found", _found(why))
        for effect in effects:
            yield from _item("variable", _variable(effect))
        yield from _item("chosen", _why(why, point.size_bytes))
        yield from _ranking(why)
    yield "  constants, by source"
    yield from _constant_lines(p.provenance)


_WIDTH = 100
_INDENT = " " * 14


def _item(name: str, text: str) -> list[str]:
    """``name`` in a column of its own, its text beside it in lines that fit a terminal."""
    return textwrap.wrap(
        text,
        width=_WIDTH,
        initial_indent=f"  {name:<12}",
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _bound(p: Prediction) -> str:
    if p.bound.time_us <= 0:
        return f"none: {p.bound.limited_by}"
    return f"{_us(p.bound.time_us)}, limited by {p.bound.limited_by}"


def _variable(effect: VariableEffect) -> str:
    """What a variable stands for, and the prediction with and without it."""
    name = f"{effect.name}={effect.text}"
    text = f"{name} ({effect.meaning})" if effect.meaning else name
    if not effect.counted:
        why = effect.note.partition(": ")[2]
        return f"{text}: not counted" + (f", {why}" if why else "")
    before = effect.time_us_without
    if before is None:
        return f"{text}: without it NCCL would stop"
    if abs(effect.time_us - before) <= _UNCHANGED * before and effect.how == effect.how_without:
        why = effect.note.removeprefix(name).removeprefix(":").strip()
        return f"{text}: changes nothing here" + (f"; {why}" if why else "")
    change = effect.time_us / before if before else 1.0
    return (
        f"{text}: {effect.how} {_us(effect.time_us)} instead of {effect.how_without} {_us(before)} "
        f"(x {change:.2f})"
    )


def _time(p: Prediction, why: Explanation) -> str:
    """The parts of the formula's time, then what ``predict`` made of it."""
    shown = [part for part in why.parts if abs(part.us) >= _NEGLIGIBLE * why.formula_us]
    text = " + ".join(f"{part.name} {_us(part.us)}" for part in shown or why.parts)
    if why.wire_us > 0:
        text += (
            f" (bytes alone, at the rate of the channels that NCCL found: {_us(why.wire_us)}; efficiency, "
            "ramp, protocol and overlap make the difference)"
        )
    rest = p.time_us - why.formula_us
    if p.bottleneck.name == "launch on the host":
        return f"{text}; but calls are issued no faster than every {_us(p.time_us)}"
    if rest > _NEGLIGIBLE * p.time_us:
        return (
            f"{text}; {_us(rest)} more, as no less than a smaller buffer takes, nor than the bound"
        )
    if -rest > _NEGLIGIBLE * p.time_us:
        return f"{text}; {_us(-rest)} less, between two sizes of different choices"
    return text


def _link_sentence(p: Prediction, link: Link, collective: str) -> str:
    """How busy the busiest links are, and why busbw may be above their rate."""
    busy = link.busy_us / p.time_us if p.time_us else 0.0
    a_gpu = link.name.endswith("GPU")
    moved = _moved(p.algorithm, collective, link.bytes_per_byte, a_gpu)
    text = (
        f"{p.busbw_GBps:.1f} GB/s on links of {link.GBps:.1f} GB/s ({link.name}): {p.algorithm} moves "
        f"{moved} over them"
    )
    if p.algorithm != "ring" and link.ring_bytes_per_byte:
        text += f", a ring would {_moved('ring', collective, link.ring_bytes_per_byte, a_gpu)}"
    if busy > 1:
        return f"{text}; measured machines reach {busy:.2f} of the rate that NCCL counts on them"
    text += f"; they are {busy:.0%} busy"
    above = p.busbw_GBps > link.GBps
    return text + (", so busbw is above the line rate" if above else "")


def _moved(algorithm: str, collective: str, bytes_per_byte: float, a_gpu: bool) -> str:
    words = _MOVES.get(algorithm) if collective == "all_reduce" and a_gpu else None
    return f"{words} = {bytes_per_byte:.3f} S" if words else f"{bytes_per_byte:.3f} S"


def _found(why: Explanation) -> str:
    g = why.found
    between = "" if g.inter_GBps is None else f", {g.inter_GBps:g} GB/s between hosts"
    nodes = "1 node" if why.nodes == 1 else f"{why.nodes} nodes"
    classes = " and ".join(c for c in (why.chip, why.network) if c)
    return (
        f"{_counted(why.ranks, 'rank')} on {nodes} as {why.library} counts them; {g.algorithm} graph of "
        f"{_counted(g.channels, 'channel')} of {g.intra_GBps:g} GB/s inside a host{between}; constants of "
        f"{classes}"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _why(why: Explanation, size_bytes: int) -> str:
    """The library's own reasons, and a better way where our figures say that there is one."""
    if not why.ways:
        return f"nothing: {why.library} has no model of this collective"
    first, *others = why.ways
    text = (
        f"{_how(first.algorithm, first.protocol)}, first in {why.library} {why.constants_version}'s own "
        f"model: {_own(first, size_bytes)}; "
    )
    text += f"then {_own(others[0], size_bytes)}" if others else "nothing else is on"
    best = min(why.ways, key=lambda w: w.time_us)
    if best.time_us < _BETTER * first.time_us:
        text += (
            f". By our figures {_how(best.algorithm, best.protocol)} takes less ({_us(best.time_us)} against "
            f"{_us(first.time_us)}): worth a measurement with NCCL_ALGO={best.algorithm.replace('_', '')} "
            f"NCCL_PROTO={best.protocol}"
        )
    return text


def _own(way: Way, size_bytes: int) -> str:
    """The library's figures. The sum is not exact where it corrects by size."""
    plain = way.library_latency_us + size_bytes / (way.library_algbw_GBps * 1e3)
    about = "" if abs(plain - way.library_time_us) < 0.01 * plain else ", corrected for the size"
    made = f"{human_size(size_bytes)} at {way.library_algbw_GBps:.1f} GB/s{about}"
    return (
        f"{_how(way.algorithm, way.protocol)} {_us(way.library_time_us)} "
        f"({_us(way.library_latency_us)} + {made})"
    )


_LAYOUT = ("<20", ">12", ">12", ">8", "<0")


def _ranking(why: Explanation) -> Iterator[str]:
    """All ways, ours fastest first; the library's choice is marked."""
    if not why.ways:
        return
    rows = [("algorithm/protocol", "predicted us", f"{why.library}'s us", "channels", "")]
    rows += [
        (
            _how(way.algorithm, way.protocol),
            f"{way.time_us:.1f}",
            f"{way.library_time_us:.1f}",
            f"{way.channels}",
            "<- chosen" if way is why.ways[0] else "",
        )
        for way in sorted(why.ways, key=lambda w: w.time_us)
    ]
    yield from columns(rows, _LAYOUT, indent=_INDENT)
    if why.switched_off:
        yield from _item("not on here", ", ".join(why.switched_off))


def _constant_lines(constants: Iterable[Constant]) -> Iterator[str]:
    by_source: dict[str, list[Constant]] = {}
    for c in constants:
        by_source.setdefault(c.source, []).append(c)
    for source, those in by_source.items():
        yield f"    {source}"
        yield from (
            f"      {c.name} = {c.value:g}" + ("" if c.unit == "1" else f" {c.unit}") for c in those
        )


def _how(algorithm: str, protocol: str | None) -> str:
    return "/".join(word for word in (algorithm, protocol) if word)


def _us(value: float) -> str:
    return f"{value:.1f} us"
