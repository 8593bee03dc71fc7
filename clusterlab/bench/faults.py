"""A lost peer as one clear error instead of a backend's traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from clusterlab.core.errors import DeadlineError


class LostPeerError(DeadlineError):
    """The connection to another rank is gone during ``what``."""

    def __init__(self, what: str, said: str) -> None:
        self.reason = f"lost the connection to another rank ({said})"
        super().__init__(
            self.reason, where=what, fix="the rank that failed first says why; see its log"
        )

    def named(self) -> DeadlineError:
        """The same as a plain DeadlineError."""
        return DeadlineError(self.reason, where=self.where, fix=self.fix)


@contextmanager
def naming_lost_peers(what: str) -> Iterator[None]:
    """Turn a backend's communication failure during ``what`` into a LostPeerError that names it."""
    try:
        yield
    except RuntimeError as error:
        said = lost_peer(error)
        if said is None:
            raise
        raise LostPeerError(what, said) from error


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
    said = re.split(r"\. |\n", without_source, maxsplit=1)[0].rstrip(".")
    # NCCL's own reason comes last: what precedes it is the same for all of its kind.
    last = re.search(r"\nLast error:\s*(\S.*)", text)
    return f"{said}: {last[1].rstrip()}" if last else said
