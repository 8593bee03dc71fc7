"""The PMIx client over libpmix by ctypes: any Python version, and the GIL is free during every call."""

from __future__ import annotations

import ctypes as c
import threading
import time
from collections.abc import Callable, Iterable

from clusterlab.launch import pmix_abi as abi
from clusterlab.launch.pmix_types import (
    COLLECT_DATA,
    MAX_VALUE_BYTES,
    NOT_FOUND_CODES,
    WILDCARD_RANK,
    NoPmix,
    PmixDeadlineError,
    PmixError,
    PmixValue,
    check_key,
    check_value,
)

LIBRARY = "libpmix.so.2"  # the soname of PMIx 3, 4 and 5
_MOST_PROBED = 1024  # threads


def connect(*, timeout_s: float, library: str = LIBRARY) -> CtypesClient | NoPmix:
    """Load libpmix and connect to the server that started this process.

    NoPmix when the library is absent, is no libpmix, has a version whose structures are not known, or
    cannot reach a server. Raises PmixDeadlineError when the server does not answer.
    """
    try:
        lib = abi.load_library(library)
    except OSError as error:
        return NoPmix(f"libpmix cannot be loaded ({error}); install it (Debian: libpmix2)")
    except AttributeError as error:
        return NoPmix(f"{library} is no PMIx library ({error})")
    version = lib.PMIx_Get_version().decode("utf-8", "replace")
    if abi.major_version(version) not in abi.SUPPORTED_MAJORS:
        majors = f"{abi.SUPPORTED_MAJORS.start} to {abi.SUPPORTED_MAJORS.stop - 1}"
        return NoPmix(f"{library} is {version!r}; versions {majors} are understood")
    me = abi.Proc()
    code = within("init", lambda: int(lib.PMIx_Init(c.byref(me), None, 0)), timeout_s)
    if code:
        text = lib.PMIx_Error_string(code).decode("utf-8", "replace")
        return NoPmix(f"PMIx_Init failed: {text} ({code})", code=code)
    return CtypesClient(lib, version, me.nspace.decode("ascii", "replace"), me.rank)


def within(call: str, function: Callable[[], int], timeout_s: float) -> int:
    """``function()``, or PmixDeadlineError after ``timeout_s``.

    The call runs in a thread of its own, left behind when it never returns: a daemon thread inside C
    holds up neither the rank nor its exit.
    """
    result: list[int] = []
    thread = threading.Thread(
        target=lambda: result.append(function()), name=f"pmix-{call}", daemon=True
    )
    thread.start()
    thread.join(timeout_s)
    if not result:
        raise PmixDeadlineError(call, timeout_s)
    return result[0]


class CtypesClient:
    """PmixClient over libpmix. Made by ``connect``."""

    implementation = "ctypes"

    def __init__(self, library: c.CDLL, version: str, namespace: str, rank: int) -> None:
        self.version = version
        self.namespace = namespace
        self.rank = rank
        self._library = library
        self._release = abi.value_releaser(library)
        self._stuck: PmixDeadlineError | None = None
        self._left = False

    def put(self, key: str, value: bytes) -> None:
        """See PmixClient.put."""
        check_key(key)
        check_value(value)
        buffer = c.create_string_buffer(value, max(1, len(value)))
        wrapped = abi.Value()
        wrapped.type = abi.BYTE_OBJECT
        wrapped.data.bo.bytes = c.cast(buffer, c.c_void_p)
        wrapped.data.bo.size = len(value)
        put = self._library.PMIx_Put
        self._call(
            "put", lambda: int(put(abi.GLOBAL_SCOPE, key.encode("ascii"), c.byref(wrapped))), 30.0
        )

    def commit(self, *, timeout_s: float = 30.0) -> None:
        """See PmixClient.commit."""
        self._call("commit", lambda: int(self._library.PMIx_Commit()), timeout_s)

    def fence(self, *, timeout_s: float) -> None:
        """See PmixClient.fence.

        Always all ranks by the wildcard: under Slurm 22.05 an explicit list of ranks kills the step.
        """
        everyone, collect = self._proc(WILDCARD_RANK), abi.flag_info(COLLECT_DATA)
        fence = self._library.PMIx_Fence
        self._call(
            "fence", lambda: int(fence(c.byref(everyone), 1, c.byref(collect), 1)), timeout_s
        )

    def get(self, rank: int, key: str, *, timeout_s: float) -> PmixValue | None:
        """See PmixClient.get."""
        check_key(key)
        found = c.POINTER(abi.Value)()
        code = self._call(
            f"get {key} of rank {rank}",
            self._getter(rank, key, found),
            timeout_s,
            allowed=NOT_FOUND_CODES,
        )
        if code or not found:
            return None
        value = abi.python_value(found.contents, limit_bytes=MAX_VALUE_BYTES)
        self._release(found)
        return value

    def absent(self, ranks: Iterable[int], key: str, *, wait_s: float) -> list[int] | None:
        """See PmixClient.absent. A get waits for the other rank's commit, so each gets a thread.

        One that comes back with an error found nothing either: the rank is not there.
        """
        check_key(key)
        ranks = list(ranks)
        if len(ranks) > _MOST_PROBED:
            return None
        pending = {}
        codes: dict[int, int] = {}

        def probe(rank: int, get: Callable[[], int]) -> None:
            codes[rank] = get()

        for rank in ranks:
            get = self._getter(rank, key, c.POINTER(abi.Value)())
            pending[rank] = threading.Thread(
                target=probe, args=(rank, get), name=f"pmix-probe-{rank}", daemon=True
            )
            pending[rank].start()
        end = time.monotonic() + wait_s
        for thread in pending.values():
            thread.join(max(0.0, end - time.monotonic()))
        return [rank for rank in pending if codes.get(rank) != 0]

    def finalize(self, *, timeout_s: float = 10.0) -> None:
        """See PmixClient.finalize. Does nothing once a call is stuck: finalize would hang behind it."""
        if self._left or self._stuck:
            return
        self._call("finalize", lambda: int(self._library.PMIx_Finalize(None, 0)), timeout_s)
        self._left = True

    def _getter(self, rank: int, key: str, found: c._Pointer[abi.Value]) -> Callable[[], int]:
        who, get = self._proc(rank), self._library.PMIx_Get
        return lambda: int(get(c.byref(who), key.encode("ascii"), None, 0, c.byref(found)))

    def _proc(self, rank: int) -> abi.Proc:
        proc = abi.Proc()
        proc.nspace = self.namespace.encode("ascii")
        proc.rank = rank
        return proc

    def _call(
        self,
        name: str,
        function: Callable[[], int],
        timeout_s: float,
        *,
        allowed: frozenset[int] = frozenset(),
    ) -> int:
        """Run one library call under its deadline; raise PmixError on a code that is not allowed."""
        if self._stuck:
            raise self._stuck
        if self._left:
            raise PmixError(name, -31, "the client has already left")
        try:
            code = within(name, function, timeout_s)
        except PmixDeadlineError as deadline:
            self._stuck = deadline
            raise
        if code and code not in allowed:
            text = self._library.PMIx_Error_string(code).decode("utf-8", "replace")
            raise PmixError(name, code, text)
        return code
