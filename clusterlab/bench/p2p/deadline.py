"""A deadline for each step of a probe in one process: a copy that never ends blocks inside CUDA, where no
exception reaches it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clusterlab.core.errors import ExitCode


def _end(what: str, deadline_s: float) -> None:
    print(f"clusterlab: {what} did not finish within {deadline_s:g} s", file=sys.stderr, flush=True)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(int(ExitCode.DEADLINE))


@contextmanager
def deadline(
    deadline_s: float, what: str, end: Callable[[str, float], None] = _end
) -> Iterator[None]:
    """End this process with exit code 4, after a line and the stacks on stderr, if the block lasts longer."""
    timer = threading.Timer(deadline_s, end, (what, deadline_s))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # no thread is left, so that what follows may fork
