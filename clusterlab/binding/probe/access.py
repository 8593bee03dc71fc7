"""The second layer of visibility: which GPUs this process may open, tried on their device files.

Opening /dev/nvidiaN makes no CUDA context. A device cgroup answers EPERM, a container without the
device has no such file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from clusterlab.binding.probe.node import NodeGpu

Open = Callable[[str], int | None]
"""Tries a device file; the error number, or None when it opened."""


def try_open(path: str) -> int | None:
    """Open ``path`` for reading and writing and close it again; the error number, or None."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno
    return None


def openable(
    gpus: Sequence[NodeGpu], notes: list[str], *, attempt: Open = try_open
) -> tuple[NodeGpu, ...] | None:
    """Those of ``gpus`` that this process may open, in the same order; None where that cannot be told.

    A GPU without a known device file counts as NVML or kfd shows it: they show only what can be opened.
    """
    may: list[NodeGpu] = []
    refused: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu.file is None:
            if gpu.shown is None:
                notes.append(f"whether GPU {gpu.key} may be opened is not known: no device file")
                return None
            if gpu.shown:
                may.append(gpu)
            continue
        number = attempt(gpu.file)
        if number is None or number == errno.EBUSY:  # busy: there, and permitted
            may.append(gpu)
        else:
            refused.setdefault(_words(number), []).append(gpu.key)
    notes += [f"{', '.join(keys)}: {why}" for why, keys in refused.items()]
    return tuple(may)


def _words(number: int) -> str:
    match number:
        case errno.EPERM:
            return "a device cgroup forbids to open it"
        case errno.ENOENT:
            return "no device file here (a container without it)"
        case errno.EACCES:
            return "its device file's mode forbids to open it"
    return f"cannot be opened: {os.strerror(number)}"
