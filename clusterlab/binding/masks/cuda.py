"""CUDA_VISIBLE_DEVICES as NVIDIA's driver reads it.

The grammar below agrees with what driver 580 did with two H200 for every mask tried (a table of 56;
"inferred" marks what that table leaves open)::

    mask      = entry *( "," entry )          unset: every device; empty: none
    kind      = decided by the first entry: "MIG-…" → MIG names, "GPU-…" → UUIDs, else ordinals
    ordinal   = *space [ "+" / "-" ] 1*DIGIT *any
                what (int)strtol(entry, …, 10) makes of it: "1gpu", "01", " +1", "0x1" (= 0) and
                4294967296 (= 0) are ordinals; text after the digits does not count
    uuid      = "GPU-" and the beginning of one device's UUID, hex digits in either case; a beginning
                that several devices share names none, nor does a longer text (inferred)
    mig       = the name of a MIG instance, whole (inferred)

Entries count from left to right. The first that names no device ends the list: what stands before it
stays. A device named twice is an error. No device at all is an error as well, and then cuInit fails.

With MIG, CUDA enumerates one instance only: the first that is visible (MIG User Guide, "CUDA Device
Enumeration"); a GPU that is cut is not itself a CUDA device but stands for its first instance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.binding.masks.numbers import leading_int32

_GPU = "GPU-"
_MIG = "MIG-"
_HEX_TAIL = re.compile(r"[0-9A-Fa-f-]*")


@dataclass(frozen=True, slots=True)
class CudaError:
    """What cuInit returns: its number and name in cuda.h."""

    code: int
    name: str


NO_DEVICE = CudaError(100, "CUDA_ERROR_NO_DEVICE")
INVALID_DEVICE = CudaError(101, "CUDA_ERROR_INVALID_DEVICE")


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A compute instance of a GPU that is cut: its name (``MIG-…``) and the GPU's position."""

    uuid: str
    gpu: int


@dataclass(frozen=True, slots=True)
class MaskResult:
    """``devices``: positions in the unmasked order, as CUDA then counts them; () with an ``error``.

    ``mig`` is the instance that stands for the one device, where that is cut. ``ignored``: the entries
    from the first that names no device on, which the driver drops without a word.
    """

    devices: tuple[int, ...]
    error: CudaError | None = None
    mig: str | None = None
    ignored: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """``count``, ``devices`` and ``error`` as ``clusterlab bind mask --json`` prints them."""
        error = {"code": self.error.code, "name": self.error.name} if self.error else None
        return {"count": len(self.devices), "devices": list(self.devices), "error": error}


def evaluate_cuda_mask(
    mask: str | None, uuids: Sequence[str], *, mig: Sequence[MigInstance] = ()
) -> MaskResult:
    """What CUDA enumerates under ``mask`` (None: unset) where unmasked it counts ``uuids`` in order.

    ``mig``: the instances of those that are cut, in the driver's order.
    """
    if mask is None:
        return _enumerated(list(range(len(uuids))), mig)
    entries = mask.split(",")
    if entries[0].startswith(_MIG):
        return _one_instance(entries, mig)
    find = _by_uuid(uuids) if entries[0].startswith(_GPU) else _by_ordinal(len(uuids))
    found: list[int] = []
    for position, entry in enumerate(entries):
        device = find(entry)
        if device is None:
            return _enumerated(found, mig, tuple(entries[position:]))
        if device in found:
            return MaskResult((), INVALID_DEVICE)
        found.append(device)
    return _enumerated(found, mig)


def _by_ordinal(count: int) -> Callable[[str], int | None]:
    def find(entry: str) -> int | None:
        ordinal = leading_int32(entry)
        return ordinal if ordinal is not None and 0 <= ordinal < count else None

    return find


def _by_uuid(uuids: Sequence[str]) -> Callable[[str], int | None]:
    tails = [uuid.removeprefix(_GPU).lower() for uuid in uuids]

    def find(entry: str) -> int | None:
        tail = entry.removeprefix(_GPU)
        if tail == entry or not _HEX_TAIL.fullmatch(tail):
            return None
        matching = [i for i, known in enumerate(tails) if known.startswith(tail.lower())]
        return matching[0] if len(matching) == 1 else None

    return find


def _enumerated(
    found: list[int], mig: Sequence[MigInstance], ignored: tuple[str, ...] = ()
) -> MaskResult:
    """The devices found, or the one MIG instance where a GPU among them is cut."""
    if not found:
        return MaskResult((), NO_DEVICE, ignored=ignored)
    for device in found:
        first = next((instance for instance in mig if instance.gpu == device), None)
        if first is not None:
            return MaskResult((device,), mig=first.uuid, ignored=ignored)
    return MaskResult(tuple(found), ignored=ignored)


def _one_instance(entries: Sequence[str], mig: Sequence[MigInstance]) -> MaskResult:
    named = next((instance for instance in mig if instance.uuid == entries[0]), None)
    if named is None:
        return MaskResult((), NO_DEVICE, ignored=tuple(entries))
    return MaskResult((named.gpu,), mig=named.uuid, ignored=tuple(entries[1:]))
