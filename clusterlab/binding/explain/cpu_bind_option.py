"""``--cpu-bind``, ``--gpu-bind`` and ``--hint``: the words Slurm accepts and what they mean.

As in Slurm's src/common/slurm_resource_info.c (slurm_verify_cpu_bind), tres_bind.c and proc_args.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from clusterlab.binding.explain.rejection import RejectedError
from clusterlab.core.digits import saturated

Unit = Literal["threads", "cores", "sockets", "ldoms"]
Mode = Literal["none", "rank", "map_cpu", "mask_cpu", "rank_ldom", "map_ldom", "mask_ldom"]

_FAILED = "srun: fatal: Failed to parse --cpu-bind= values."


@dataclass(frozen=True, slots=True)
class CpuBind:
    """``mode`` and its ``items`` are an explicit binding, ``unit`` what tasks are widened to."""

    mode: Mode | None = None
    items: tuple[str, ...] = ()
    unit: Unit | None = None
    one_thread: bool = False


_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("socket", "sockets"), "sockets"),
    **dict.fromkeys(("core", "cores"), "cores"),
    **dict.fromkeys(("thread", "threads"), "threads"),
    **dict.fromkeys(("ldom", "ldoms"), "ldoms"),
}
_ALONE: dict[str, Mode] = {
    "no": "none",
    "none": "none",
    "rank": "rank",
    "rank_ldom": "rank_ldom",
}
_LISTS: dict[str, Mode] = {
    "map_cpu": "map_cpu",
    "mapcpu": "map_cpu",
    "mask_cpu": "mask_cpu",
    "maskcpu": "mask_cpu",
    "map_ldom": "map_ldom",
    "mapldom": "map_ldom",
    "mask_ldom": "mask_ldom",
    "maskldom": "mask_ldom",
}


def read_cpu_bind(text: str, before: CpuBind = CpuBind()) -> CpuBind:
    """The binding after ``text`` (``quiet,mask_cpu:0xf,0xf0``) was added to ``before``."""
    # A comma separates words unless what follows is a value of a list (_isvalue).
    bind = before
    for word in re.split(r",(?![0-9]|[0-9a-fA-F]+(?:,|$))", text):
        bind = _add_word(bind, word)
    return bind


def _add_word(bind: CpuBind, word: str) -> CpuBind:
    lower = word.lower()
    if lower in ("q", "quiet", "v", "verbose"):
        return bind
    if lower == "one_thread":
        return replace(bind, one_thread=True)
    if lower in _ALONE:
        return replace(bind, mode=_ALONE[lower], items=())
    if lower in _UNITS:
        return replace(bind, unit=_UNITS[lower])
    name, _, values = word.partition(":") if ":" in word else word.partition("=")
    mode = _LISTS.get(name.lower())
    if mode is None:
        raise RejectedError(f'srun: error: unrecognized --cpu-bind argument "{word}"\n{_FAILED}')
    if not values:
        raise RejectedError(f'srun: error: missing list for "--cpu-bind={mode}:<list>"\n{_FAILED}')
    return replace(bind, mode=mode, items=_expand(values, mode))


def _expand(values: str, mode: Mode) -> tuple[str, ...]:
    """``0xf*2,f0`` as f,f,f0 for a mask; decimals for a map."""
    digits = re.compile(r"[0-9a-fA-F]*" if mode.startswith("mask") else r"[0-9]*", re.ASCII)
    items: list[str] = []
    for value in filter(None, values.split(",")):
        bare = value.removeprefix("0x") if mode.startswith("mask") else value
        item, star, times = bare.partition("*")
        bad = next((c for c in item if not digits.fullmatch(c)), None)
        if bad is not None or (
            star and not (times.isascii() and times.isdigit() and saturated(times))
        ):
            offending = bad or times[:1] or "*"
            raise RejectedError(
                f"srun: error: Failed to validate number: {bare}, the offending character is "
                f"{offending}\n{_FAILED}"
            )
        if star and saturated(times) > 65536:
            raise RejectedError(f"srun: error: Invalid {mode} multiplier: {times}\n{_FAILED}")
        items += [item] * (saturated(times) if star else 1)
    return tuple(items)


@dataclass(frozen=True, slots=True)
class GpuBind:
    """``kind`` None: a word that is accepted and means nothing, such as ``none`` or ``nearest``."""

    kind: Literal["closest", "single", "per_task", "map", "mask"] | None = None
    count: int = 0
    items: str = ""
    text: str = ""


def read_gpu_bind(text: str) -> GpuBind:
    """A ``--gpu-bind`` value. Slurm accepts any word that begins with n or c; only c... binds."""
    request = f"gpu:{text}"
    words = text[8:] if text.lower().startswith("verbose,") else text
    lower = words.lower()
    if lower.startswith(("c", "n")):
        kind: Literal["closest"] | None = "closest" if lower.startswith("closest") else None
        return GpuBind(kind, text=request)
    for prefix, name in (("map_gpu:", "map"), ("mask_gpu:", "mask")):
        if lower.startswith(prefix):
            _check_numbers(words[len(prefix) :], request, hexadecimal=name == "mask")
            return GpuBind(name, items=words[len(prefix) :], text=request)  # type: ignore[arg-type]
    for prefix, name in (("per_task:", "per_task"), ("single:", "single")):
        if lower.startswith(prefix):
            number = re.match(r"\s*([+-]?)([0-9]+)", words[len(prefix) :], re.ASCII)
            count = saturated(number[2]) if number else 0
            if number and number[1] == "-" and count:
                break
            if name == "single" and count == 0:
                count = 1  # "Defaulting to 1"
            return GpuBind(name, count=count, text=request)  # type: ignore[arg-type]
    raise RejectedError(f"srun: error: Invalid --gpu-bind argument: {request}")


def _check_numbers(values: str, request: str, *, hexadecimal: bool) -> None:
    refused = f"srun: error: Invalid --gpu-bind argument: {request}"
    digits = r"[0-9a-fA-F*]" if hexadecimal else r"[0-9*]"
    for value in filter(None, values.split(",")):
        bare = value.removeprefix("0x") if hexadecimal else value
        bad = next((c for c in bare if not re.fullmatch(digits, c)), None)
        if bad is not None:
            raise RejectedError(
                f"srun: error: Failed to validate {bare}, offending character is {bad}\n{refused}"
            )
        if not re.fullmatch(r"[0-9a-fA-F]*(\*[0-9]*)?", bare):
            raise RejectedError(refused)


_HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread")


def read_hint(text: str) -> tuple[str, ...]:
    """The words of ``--hint``. Raises RejectedError for one that Slurm does not know."""
    words = tuple(text.lower().split(","))
    for word in words:
        if word not in _HINTS:
            raise RejectedError(
                f'srun: error: unrecognized --hint argument "{word}", see --hint=help'
            )
    return words
