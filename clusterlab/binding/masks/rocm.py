"""ROCm's masks, which stack: ROCR_VISIBLE_DEVICES first, then HIP's, which index what ROCr left.

Sources: ROCm/ROCR-Runtime, core/runtime/amd_filter_device.cpp (RvdFilter), and ROCm/clr,
rocclr/device/rocm/rocdevice.cpp (Device::init), read in 2026.

ROCr: entries are trimmed and put in capitals; one that begins with G is a UUID of 5 to 20 characters or
the beginning of one (16 hex digits after ``GPU-``, unambiguous), else a whole number, decimal, 0x… or
0… (octal). The first entry that is neither, is out of range or names a device again ends the list. Set
but empty hides every device. No more entries are read than there are devices.

HIP: HIP_VISIBLE_DEVICES, and only where that is unset or empty CUDA_VISIBLE_DEVICES. An empty one does
not mask. An entry is a number exactly as it is written back (no sign, space or leading zero), or, in
newer releases, contains a part of a device's UUID; the first that is neither ends the list, a repeated
device is passed over. OpenCL reads GPU_DEVICE_ORDINAL in its place, by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.binding.masks.numbers import leading_int32, whole_int32

_GPU = "GPU-"
_UUID_LENGTHS = range(5, 21)


@dataclass(frozen=True, slots=True)
class RocmResult:
    """``devices``: positions in the unmasked order. ``layers``: (variable, its value, what it left)."""

    devices: tuple[int, ...]
    layers: tuple[tuple[str, str, tuple[int, ...]], ...] = ()


def evaluate_rocr_mask(mask: str | None, uuids: Sequence[str]) -> tuple[int, ...]:
    """The devices ROCr enumerates under ROCR_VISIBLE_DEVICES, as positions in ``uuids``."""
    if mask is None:
        return tuple(range(len(uuids)))
    if not mask:
        return ()
    known = [uuid.upper() for uuid in uuids]
    found: list[int] = []
    for entry in mask.split(",")[: len(uuids)]:
        device = _rocr_device(entry.strip(" \t\n\v\f\r").upper(), known)
        if device is None or device in found:
            break
        found.append(device)
    return tuple(found)


def _rocr_device(entry: str, uuids: Sequence[str]) -> int | None:
    if entry.startswith("G"):
        if len(entry) not in _UUID_LENGTHS:
            return None
        matching = [i for i, uuid in enumerate(uuids) if uuid.startswith(entry)]
        return matching[0] if len(matching) == 1 else None
    # ROCr reads an empty entry's first character, which is not there: no device, whatever comes of it.
    number = whole_int32(entry) if entry else None
    return number if number is not None and 0 <= number < len(uuids) else None


def evaluate_hip_mask(mask: str | None, uuids: Sequence[str]) -> tuple[int, ...]:
    """The devices HIP (or OpenCL) enumerates under its mask, as positions in ``uuids``.

    ``uuids`` are the devices that ROCr left, in its order.
    """
    if not mask:
        return tuple(range(len(uuids)))
    found: list[int] = []
    entries = mask.removesuffix(",").split(",")
    for entry in entries:
        device = _hip_device(entry, uuids)
        if device is None:
            break
        if device not in found:
            found.append(device)
    return tuple(found)


def _hip_device(entry: str, uuids: Sequence[str]) -> int | None:
    if _GPU in entry:
        return next((i for i, uuid in enumerate(uuids) if entry in uuid), None)
    number = leading_int32(entry)
    if number is None or not 0 <= number < len(uuids) or entry != str(number):
        return None
    return number


def evaluate_rocm_masks(
    environ: Mapping[str, str], uuids: Sequence[str], *, opencl: bool = False
) -> RocmResult:
    """What a HIP program (``opencl``: an OpenCL one) sees of ``uuids`` under all masks of ``environ``."""
    layers: list[tuple[str, str, tuple[int, ...]]] = []
    rocr = environ.get("ROCR_VISIBLE_DEVICES")
    left = evaluate_rocr_mask(rocr, uuids)
    if rocr is not None:
        layers.append(("ROCR_VISIBLE_DEVICES", rocr, left))
    names = ["GPU_DEVICE_ORDINAL"] if opencl else ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]
    name = next((name for name in names if environ.get(name)), None)
    if name is not None:
        seen = evaluate_hip_mask(environ[name], [uuids[i] for i in left])
        left = tuple(left[i] for i in seen)
        layers.append((name, environ[name], left))
    return RocmResult(left, tuple(layers))
