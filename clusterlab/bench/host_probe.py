"""What a rank can say of its host in half a second: who else wants its cores, how fast one computes, whether
its network ports are up.
"""

from __future__ import annotations

import os
import socket
import struct
import time
import zlib
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
INFINIBAND = Path("/sys/class/infiniband")

_SAMPLES = 16
_BLOCK = bytes(1 << 16)
_BLOCKS, _TRIES = 40, 5
_FLAGS_OF_INTERFACE = 0x8913  # SIOCGIFFLAGS, linux/sockios.h
_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40  # net/if.h


def cores_free(window_s: float = 0.4, *, proc: Path = PROC, cores: int | None = None) -> float:
    """The share of this host's cores that nobody else wants: 1 less the threads of other processes that were
    ready to run, on average over ``window_s``, over the cores.

    What is ready counts, not what ran: a thread that waits for a core wants it too. Processes of other
    hosts on the same machine (a lab's) are not seen.
    """
    many = cores or os.cpu_count() or 1
    me, wanted = str(os.getpid()), 0
    for _ in range(_SAMPLES):
        time.sleep(window_s / _SAMPLES)
        wanted += sum(_ready(process) for process in proc.glob("[0-9]*") if process.name != me)
    return max(0.0, 1 - wanted / _SAMPLES / many)


def _ready(process: Path) -> int:
    """How many of its threads are in state R; 0 for one that has ended."""
    ready = 0
    with suppress(OSError):
        for thread in (process / "task").iterdir():
            with suppress(OSError):
                # The name may hold anything; the state follows its closing bracket (proc(5)).
                ready += (thread / "stat").read_bytes().rpartition(b")")[2].split()[:1] == [b"R"]
    return ready


def clock_rate() -> float:
    """Work in a second of CPU time, the best of a few tries: it falls with the clock, not with waiting."""
    best = 0.0
    for _ in range(_TRIES):
        began = time.thread_time()
        for _ in range(_BLOCKS):
            zlib.crc32(_BLOCK)
        spent = time.thread_time() - began
        best = max(best, _BLOCKS / max(spent, 1e-9))
    return best


def ports_up(*, infiniband: Path = INFINIBAND) -> dict[str, bool]:
    """Of each network interface and InfiniBand device of this host, whether it can carry anything now."""
    found: dict[str, bool] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            flags = _flags(asked, name)
            if flags is not None and not flags & _LOOPBACK:
                found[name] = bool(flags & _UP and flags & _RUNNING)
    with suppress(OSError):
        for device in sorted(infiniband.iterdir()):
            with suppress(OSError):
                states = [p.read_text() for p in sorted(device.glob("ports/*/state"))]
                found[device.name] = any("ACTIVE" in state for state in states)
    return found


def _flags(asked: socket.socket, name: str) -> int | None:
    import fcntl

    with suppress(OSError):
        answer = fcntl.ioctl(asked, _FLAGS_OF_INTERFACE, struct.pack("16sH14x", name.encode(), 0))
        return int(struct.unpack("16sH14x", answer)[1])
    return None
