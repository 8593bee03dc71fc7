"""What this process is doing: the Python stacks of its threads, short and whole."""

from __future__ import annotations

import sys
import threading
import traceback
from pathlib import Path

_FRAMES = 5
"""Innermost frames of a short stack: from what was measured down to torch's call."""


def short_stack() -> str:
    """The main thread, innermost frame last: ``runner.py:132 _measure > … > ops.py:60 call``."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return "no Python frame"
    # A wrapper around a wrapper says nothing: torch's decorators are left out.
    found = [f for f in traceback.extract_stack(frame) if f.name != "wrapper"][-_FRAMES:]
    return " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in found)


def all_stacks() -> str:
    """Every thread with its whole stack, the main thread first, as Python prints tracebacks."""
    frames = sys._current_frames()
    main = threading.main_thread()
    threads = sorted(threading.enumerate(), key=lambda thread: thread is not main)
    parts = [
        f"Thread {t.name} (most recent call last):\n"
        + "".join(traceback.format_stack(frames[t.ident]))
        for t in threads
        if t.ident in frames
    ]
    return "\n".join(parts)
