"""The NCCL (or RCCL) that this process has loaded: its version, and the function that rereads its settings.

``ncclResetDebugInit`` makes NCCL read NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE again at its next log
call (src/debug.cc). It is exported since 2.24; up to 2.26 it closes the log's file without the lock that
writers hold, so that another thread's line could go to a closed file: it is used since 2.27 only.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_LIBRARY = re.compile(r"(/\S*/lib(?:nccl|rccl)\.so[.\d]*)$")
_RESETS = ("ncclResetDebugInit", "ncclResetDebugInitInternal")
_SAFE_RESET = (2, 27)


@dataclass(frozen=True, slots=True)
class Library:
    """``version`` as (2, 28, 9). ``reset`` is None where it is absent or not safe."""

    path: str
    version: tuple[int, int, int]
    reset: Callable[[], object] | None

    @property
    def version_text(self) -> str:
        """``2.28.9``."""
        return ".".join(map(str, self.version))


def loaded_library(maps: Path = Path("/proc/self/maps")) -> Library | None:
    """None where no shared libnccl is loaded, or it does not answer."""
    path = library_path(maps.read_text(encoding="utf-8", errors="replace"))
    if path is None:
        return None
    # RTLD_NOLOAD: the one that torch uses, never a second copy beside it.
    handle = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    code = ctypes.c_int(0)
    if handle.ncclGetVersion(ctypes.byref(code)) != 0:
        return None
    version = decoded(code.value)
    reset = next((getattr(handle, name) for name in _RESETS if hasattr(handle, name)), None)
    if reset is not None:
        reset.restype, reset.argtypes = None, []
    return Library(path, version, reset if version[:2] >= _SAFE_RESET else None)


def library_path(maps: str) -> str | None:
    """The first libnccl or librccl in the text of /proc/self/maps."""
    found = (_LIBRARY.search(line) for line in maps.splitlines())
    return next((match.group(1) for match in found if match), None)


def decoded(code: int) -> tuple[int, int, int]:
    """NCCL_VERSION_CODE: 22809 is 2.28.9; before 2.9, 2804 was 2.8.4 (src/nccl.h.in NCCL_VERSION)."""
    major = 10_000 if code >= 10_000 else 1_000
    return code // major, code % major // 100, code % 100


def driver_version(proc: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """The NVIDIA driver's, from NVML or else from the kernel module's own line; None without one."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            said = pynvml.nvmlSystemGetDriverVersion()
        finally:
            pynvml.nvmlShutdown()
        return said.decode() if isinstance(said, bytes) else str(said)
    except Exception:  # NVMLError is known only where pynvml is; /proc may still say
        pass
    try:
        match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)*)\b", proc.read_text())
    except OSError:
        return None
    return match.group(1) if match else None
