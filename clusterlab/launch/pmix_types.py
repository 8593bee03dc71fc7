"""PMIx in plain data: the client's interface, the job's facts, why there is no client, errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from clusterlab.core.errors import ClusterlabError, DeadlineError, ExitCode, UsageError

# Reserved keys of pmix_common.h. Slurm and Open MPI answer each only where noted.
JOB_SIZE = "pmix.job.size"  # wildcard rank
LOCAL_SIZE = "pmix.local.size"  # wildcard rank: ranks of the job on this node
NODE_COUNT = "pmix.num.nodes"  # wildcard rank
NODE_LIST = "pmix.nlist"  # wildcard rank; comma-separated
LOCAL_PEERS = "pmix.lpeers"  # wildcard rank: "0,1,2"
LOCAL_RANK = "pmix.lrank"  # own rank
NODE_ID = "pmix.nodeid"  # own rank
HOSTNAME = "pmix.hname"  # any rank
COLLECT_DATA = "pmix.collect"  # attribute of a fence

WILDCARD_RANK = 0xFFFFFFFE  # PMIX_RANK_WILDCARD
MAX_KEY = 511  # PMIX_MAX_KEYLEN
MAX_VALUE_BYTES = 1 << 20  # far above any address or NCCL unique id (128 B)

NOT_FOUND_CODES = frozenset({-46, -24})  # NOT-FOUND; TIMEOUT on the publisher's own node

PmixValue = bytes | str | int | float | bool


@dataclass(frozen=True, slots=True)
class PmixFacts:
    """What the PMIx server says of this rank and its job.

    ``local_peers`` are the ranks of the job on this node. A fact that the server does not offer is
    None, or empty for the lists: libpmix 5 under a server of version 4 learns no ``local_size``.
    """

    namespace: str
    rank: int
    job_size: int
    local_rank: int | None
    local_size: int | None
    node_id: int | None = None
    node_count: int | None = None
    hostname: str | None = None
    local_peers: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoPmix:
    """Why this process has no PMIx client. ``code`` is the library's return code, where it gave one.

    ``expected`` says that a server is there, or should be: the environment carries this task's PMIx
    variables, so that going on without PMIx deserves a warning.
    """

    reason: str
    expected: bool = False
    code: int | None = None


class PmixError(ClusterlabError):
    """A PMIx call failed; ``code`` is what the library returned."""

    exit_code = ExitCode.DEADLINE

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"PMIx {call} failed: {text} ({code})")
        self.code = code


class PmixDeadlineError(DeadlineError):
    """A PMIx call did not return in time. The client is of no further use."""

    def __init__(self, call: str, timeout_s: float) -> None:
        super().__init__(f"PMIx {call} did not return within {timeout_s:g} s")


class PmixClient(Protocol):
    """One rank's connection to its PMIx server.

    Every call raises PmixError when the library refuses and PmixDeadlineError when it does not return
    within ``timeout_s``; after a deadline each further call raises at once.
    """

    implementation: str  # "ctypes" or "bindings"
    version: str  # what the library calls itself
    namespace: str
    rank: int

    def put(self, key: str, value: bytes) -> None:
        """Stage ``value`` under ``key`` for every other rank. Visible after commit and fence."""

    def commit(self, *, timeout_s: float = 30.0) -> None:
        """Hand everything staged to the server."""

    def fence(self, *, timeout_s: float) -> None:
        """Wait for all ranks of the job and collect their data.

        Always with PMIX_COLLECT_DATA: without it Slurm's fence is no barrier across nodes.
        """

    def get(self, rank: int, key: str, *, timeout_s: float) -> PmixValue | None:
        """What ``rank`` published under ``key``, or None. Job facts are asked of WILDCARD_RANK.

        Before a fence the call waits for the other rank's commit.
        """

    def absent(self, ranks: Iterable[int], key: str, *, wait_s: float) -> list[int] | None:
        """Those of ``ranks`` that have not committed ``key`` within ``wait_s``; None: cannot tell.

        Works after a fence that passed its deadline, to name who did not arrive.
        """

    def finalize(self, *, timeout_s: float = 10.0) -> None:
        """Leave. Safe to call twice."""


def check_key(key: str) -> None:
    """Raise UsageError for a key PMIx cannot carry: ASCII, 2 to 511 characters.

    One character makes the 4.2 binding swallow an OverflowError.
    """
    if not (key.isascii() and 2 <= len(key) <= MAX_KEY):
        raise UsageError(
            f"{key[:40]!r}", where="PMIx key", expected=f"2 to {MAX_KEY} ASCII characters"
        )


def check_value(value: bytes) -> None:
    """Raise UsageError for a value above MAX_VALUE_BYTES."""
    if len(value) > MAX_VALUE_BYTES:
        raise UsageError(
            f"{len(value)} bytes", where="PMIx value", expected=f"at most {MAX_VALUE_BYTES}"
        )


def read_facts(client: PmixClient, *, timeout_s: float) -> PmixFacts:
    """Ask the server who this rank is. Raises PmixError when it does not know the job's size."""

    def text(rank: int, key: str) -> str | None:
        value = client.get(rank, key, timeout_s=timeout_s)
        return value if isinstance(value, str) and value else None

    def number(rank: int, key: str) -> int | None:
        value = client.get(rank, key, timeout_s=timeout_s)
        return value if isinstance(value, int) else None

    def needed(rank: int, key: str) -> int:
        value = number(rank, key)
        if value is None:
            raise PmixError(f"get {key}", -46, "the server does not say")
        return value

    peers = _numbers(text(WILDCARD_RANK, LOCAL_PEERS) or "")
    nodes = text(WILDCARD_RANK, NODE_LIST)
    return PmixFacts(
        namespace=client.namespace,
        rank=client.rank,
        job_size=needed(WILDCARD_RANK, JOB_SIZE),
        local_rank=number(client.rank, LOCAL_RANK),
        local_size=number(WILDCARD_RANK, LOCAL_SIZE) or len(peers) or None,
        node_id=number(client.rank, NODE_ID),
        node_count=number(WILDCARD_RANK, NODE_COUNT),
        hostname=text(client.rank, HOSTNAME),
        local_peers=peers,
        nodes=tuple(nodes.split(",")) if nodes else (),
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(p) for p in text.split(",") if p.isascii() and p.isdigit())
