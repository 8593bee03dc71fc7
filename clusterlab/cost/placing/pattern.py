"""What a job's ranks do together: ``tp8,dp`` as groups of ranks, each with its collective. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from clusterlab.core.errors import UsageError
from clusterlab.core.sizes import parse_size
from clusterlab.core.suggest import unknown

COLLECTIVE_OF = {
    "tp": "all_reduce",
    "sp": "reduce_scatter",
    "cp": "send_recv",
    "ep": "all_to_all",
    "pp": "send_recv",
    "fsdp": "all_gather",
    "dp": "all_reduce",
}
"""What each kind of parallelism sends, the innermost first as training frameworks nest them."""

SIZE_OF = {
    "tp": 64 << 20, "sp": 64 << 20, "cp": 64 << 20, "ep": 64 << 20, "pp": 32 << 20,
    "fsdp": 256 << 20, "dp": 256 << 20,
}  # fmt: skip
"""Bytes of one call, where none is named: activations of some thousand tokens; a bucket of gradients."""

CALLS_OF = {"tp": 128, "sp": 128, "cp": 64, "ep": 128, "pp": 16, "fsdp": 96, "dp": 16}
"""Calls of one training step, where none are named: of 32 layers, four a layer in tensor parallelism, three
in FSDP; of 16 micro-batches or buckets of gradients.
"""

_AXIS = re.compile(r"([a-z]+)(\d*)(?::([\w.]+))?(?:\*(\d+))?")


@dataclass(frozen=True, slots=True)
class Axis:
    """One kind of parallelism: ``width`` ranks a group, ``stride`` ranks apart; ``calls`` of ``size_bytes`` a
    training step.
    """

    name: str
    width: int
    stride: int
    collective: str
    size_bytes: int
    calls: int


def read_pattern(text: str, ranks: int) -> tuple[Axis, ...]:
    """``tp8,pp4,dp``, the fastest-varying first; ``dp:1G*4`` names the bytes of a call and the calls of a
    step. One axis may leave its width out and gets what is left of ``ranks``. Raises UsageError naming it.
    """
    parts = [_part(word.strip()) for word in text.split(",") if word.strip()]
    if not parts:
        raise UsageError(f"{text!r}", where="--pattern", expected="axes such as tp8,dp")
    names = [name for name, _, _, _ in parts]
    if len(set(names)) < len(names):
        raise UsageError(f"{text!r}", where="--pattern", expected="each axis once")
    widths = _widths(text, {name: width for name, width, _, _ in parts}, ranks)
    axes = []
    stride = 1
    for name, _, size, calls in parts:
        axes.append(
            Axis(
                name,
                widths[name],
                stride,
                COLLECTIVE_OF[name],
                size or SIZE_OF[name],
                calls or CALLS_OF[name],
            )
        )
        stride *= widths[name]
    return tuple(axes)


def _part(word: str) -> tuple[str, int | None, int | None, int | None]:
    found = _AXIS.fullmatch(word.lower())
    if found is None:
        raise UsageError(f"{word!r}", where="--pattern", expected="an axis such as tp8 or dp:1G*4")
    name, width, size, calls = found.groups()
    if name not in COLLECTIVE_OF:
        raise unknown("axis", name, COLLECTIVE_OF, where="--pattern")
    if width and int(width) < 1:
        raise UsageError(f"{word!r}", where="--pattern", expected="a width of at least 1")
    if calls and int(calls) < 1:
        raise UsageError(f"{word!r}", where="--pattern", expected="at least 1 call")
    return (
        name,
        int(width) if width else None,
        parse_size(size, where="--pattern") if size else None,
        int(calls) if calls else None,
    )


def _widths(text: str, given: Mapping[str, int | None], ranks: int) -> dict[str, int]:
    known = prod(width for width in given.values() if width is not None)
    open_axes = [name for name, width in given.items() if width is None]
    if len(open_axes) > 1:
        raise UsageError(
            f"{text!r}", where="--pattern",
            expected=f"a width for all of {', '.join(open_axes)} but one",
        )  # fmt: skip
    if ranks % known or (not open_axes and ranks != known):
        raise UsageError(
            f"{text!r} for {ranks} ranks", where="--pattern",
            expected=f"widths whose product {'divides' if open_axes else 'is'} {ranks}, not {known}",
        )  # fmt: skip
    return {name: ranks // known if width is None else width for name, width in given.items()}


def groups_of(axis: Axis, ranks: int) -> tuple[tuple[int, ...], ...]:
    """The ranks of every group of the axis, groups in order of their first rank."""
    span = axis.width * axis.stride
    return tuple(
        tuple(range(block + offset, block + span, axis.stride))
        for block in range(0, ranks, span)
        for offset in range(axis.stride)
    )
