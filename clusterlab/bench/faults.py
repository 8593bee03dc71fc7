"""A lost peer as one clear error instead of a backend's traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from clusterlab.core.errors import DeadlineError


@contextmanager
def naming_lost_peers(what: str) -> Iterator[None]:
    """Turn a backend's communication failure during ``what`` into a DeadlineError that names it."""
    try:
        yield
    except RuntimeError as error:
        reason = lost_peer(error)
        if reason is None:
            raise
        raise DeadlineError(
            f"lost the connection to another rank ({reason})",
            where=what,
            fix="the rank that failed first says why; see its log",
        ) from error


def lost_peer(error: RuntimeError) -> str | None:
    """What the backend said, in short, when ``error`` is a communication failure; else None.

    gloo raises plain RuntimeErrors from its transport; NCCL and the store raise torch's DistError, NCCL
    also for calls that it does not accept.
    """
    from torch.distributed import DistError

    text = str(error).strip()
    if "/gloo/transport/" not in text and not isinstance(error, DistError):
        return None
    if re.search(r"invalid (argument|usage)", text):
        return None
    without_source = re.sub(r"^\[[^\]]*\]\s*", "", text)
    return re.split(r"\. |\n", without_source, maxsplit=1)[0].rstrip(".")
