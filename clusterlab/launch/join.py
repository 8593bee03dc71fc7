"""From a process that some launcher started to a rank at its job's store: identity, then rendezvous."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.launch.claims import Environ
from clusterlab.launch.identity import RankIdentity, explain_identity
from clusterlab.launch.pmix import NoPmix, PmixClient, connect, read_facts
from clusterlab.launch.rendezvous import Meeting, meet, part

if TYPE_CHECKING:
    from torch.distributed import Store


@dataclass(slots=True)
class Arrival:
    """A rank that knows who it is. ``notes`` say what was passed over, ``identity_us`` what it took.

    ``pmix`` stays connected while the rank runs: its server then ends the step when a rank dies.
    """

    identity: RankIdentity
    pmix: PmixClient | None
    environ: Environ
    notes: tuple[str, ...]
    identity_us: float
    meeting: Meeting | None = None

    def open_store(self, timeout_s: float) -> Store:
        """The job's store, once every rank is there; later calls return the same one. See ``meet``."""
        if self.meeting is None:
            self.meeting = meet(
                self.identity, pmix=self.pmix, environ=self.environ, timeout_s=timeout_s
            )
        return self.meeting.store

    def leave(self) -> None:
        """Be done with the store and PMIx. Only after success: a rank that fails should be missed."""
        if self.meeting is not None:
            part(self.identity, self.meeting)
        if self.pmix is not None:
            self.pmix.finalize()


def arrive(environ: Environ, *, timeout_s: float = 60.0) -> Arrival | None:
    """This process as a rank of its launcher's job, or None when no launcher made it one.

    Connects to PMIx where the launcher offers it. Needs no torch. Raises UsageError on contradictions,
    PmixDeadlineError when the PMIx server does not answer within ``timeout_s``.
    """
    start = time.monotonic()
    client = connect(environ, timeout_s=timeout_s)
    notes: tuple[str, ...] = ()
    facts = None
    if isinstance(client, NoPmix):
        if client.expected:
            notes = (f"going on without PMIx: {client.reason}",)
    else:
        facts = read_facts(client, timeout_s=timeout_s)
    found = explain_identity(environ, facts)
    if found.identity is None:
        return None
    return Arrival(
        identity=found.identity,
        pmix=None if isinstance(client, NoPmix) else client,
        environ=environ,
        notes=notes + found.notes,
        identity_us=(time.monotonic() - start) * 1e6,
    )
