"""The variables of NCCL that are modelled: which field each sets, and how its text is read.

Names and meanings from NCCL 2.30.7 (`NCCL_PARAM` in `src/`, `ncclGetLevel` in `src/graph/paths.cc`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean
from clusterlab.cost.nccl.communicator import PathName
from clusterlab.cost.nccl.nic_filter import parse_nic_filter
from clusterlab.cost.nccl.value_types import whole_number

_LEVELS = tuple(name for name in get_args(PathName) if name != "NET")
_OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")

# What NCCL reads that moves logs, files and waiting about, but no bytes: no word is lost on it.
_HARMLESS = re.compile(
    r"NCCL_(DEBUG(_\w+)?|SOCKET_FAMILY|OOB_\w+|COMM_ID|RAS_\w+|(TOPO|GRAPH)_DUMP_\w+"
    r"|CONF_FILE|WARN_\w+|SET_\w+|LOG_\w+|PROFILER_\w+"
    r"|VERSION|ROOT|HOME|INCLUDE_DIR|LIB_DIR|ASYNC_ERROR_HANDLING|BLOCKING_WAIT|IB_TIMEOUT"
    r"|IB_RETRY_CNT|CHECK_\w+|COMM_BLOCKING)"
)


SELECTIONS = ("NCCL_ALGO", "NCCL_PROTO")
"""Those with a grammar of their own (``selection.py``)."""


def is_nccl_variable(name: str) -> bool:
    """Whether ``name`` is a variable of NCCL's (or RCCL's) that may act on a collective's time."""
    return name.startswith(("NCCL_", "RCCL_")) and not _HARMLESS.fullmatch(name)


def _flag(variable: str, text: str) -> bool:
    value = whole_number(variable, text)
    if value not in (0, 1):
        raise UsageError(f"{text}", where=variable, expected="0 or 1")
    return value == 1


def _automatic(variable: str, text: str) -> bool | None:
    """0 off, 1 on, 2 as NCCL sees fit."""
    value = whole_number(variable, text)
    if value not in (0, 1, 2):
        raise UsageError(f"{text}", where=variable, expected="0 (off), 1 (on) or 2 (automatic)")
    return None if value == 2 else value == 1


def _in(least: int, most: int) -> Callable[[str, str], int]:
    def read(variable: str, text: str) -> int:
        value = whole_number(variable, text)
        if not least <= value <= most:
            raise UsageError(f"{text}", where=variable, expected=f"{least} to {most}")
        return value

    return read


def _threads(most: int) -> Callable[[str, str], int]:
    def read(variable: str, text: str) -> int:
        value = whole_number(variable, text)
        if value % 32 or not 32 <= value <= most:
            raise UsageError(
                f"{text}", where=variable, expected=f"a multiple of 32 between 32 and {most}"
            )
        return value

    return read


def _level(variable: str, text: str) -> str:
    if text in _LEVELS:
        return text
    if text.isascii() and text.isdigit():
        return _OLD_LEVELS[min(int(text[:6]), len(_OLD_LEVELS) - 1)]
    raise UsageError(
        f"{text!r}",
        where=variable,
        expected="one of " + ", ".join(_LEVELS) + " in capitals, or 0 to 5",
        fix=did_you_mean(text, _LEVELS),
    )


def _net(variable: str, text: str) -> str:
    """The name of a network in any case; NCCL's own are IB and Socket, all others plugins'."""
    return text.lower()


def _nanoseconds(variable: str, text: str) -> float:
    return _in(0, 10**9)(variable, text) / 1000


def _thresholds(variable: str, text: str) -> tuple[int, ...]:
    words = text.split()
    if not 1 <= len(words) <= 6:
        raise UsageError(
            f"{text!r}",
            where=variable,
            expected="up to six numbers: tree LL, LL128, Simple, ring LL, LL128, Simple",
        )
    return tuple(whole_number(variable, word) for word in words)


TUNING_VARIABLES: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "NCCL_NVLS_ENABLE": ("nvls", _automatic),
    "NCCL_COLLNET_ENABLE": ("collnet", _flag),
    "NCCL_PAT_ENABLE": ("pat", _automatic),
    "NCCL_LL128_C2C": ("ll128_c2c", _flag),
    "NCCL_MIN_NRINGS": ("min_channels", _in(0, 64)),
    "NCCL_MAX_NRINGS": ("max_channels", _in(1, 64)),
    "NCCL_MIN_NCHANNELS": ("min_channels", _in(0, 64)),
    "NCCL_MAX_NCHANNELS": ("max_channels", _in(1, 64)),
    "NCCL_MIN_CTAS": ("min_ctas", _in(1, 64)),
    "NCCL_MAX_CTAS": ("max_ctas", _in(1, 64)),
    "NCCL_NVLS_NCHANNELS": ("nvls_channels", _in(1, 64)),
    "NCCL_MIN_P2P_NCHANNELS": ("min_message_channels", _in(1, 64)),
    "NCCL_MAX_P2P_NCHANNELS": ("max_message_channels", _in(1, 64)),
    "NCCL_NCHANNELS_PER_NET_PEER": ("net_peer_channels", _in(1, 64)),
    "NCCL_NTHREADS": ("threads", _threads(512)),
    "NCCL_LL128_NTHREADS": ("ll128_threads", _threads(640)),
    "NCCL_NET_OVERHEAD": ("net_overhead_us", _nanoseconds),
    "NCCL_THREAD_THRESHOLDS": ("thresholds", _thresholds),
}
"""Variable to (field of Overrides, reader). Of two for one field the later wins, as in NCCL."""

GRAPH_VARIABLES: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "NCCL_P2P_DISABLE": ("p2p_disable", _flag),
    "NCCL_P2P_LEVEL": ("p2p_level", _level),
    "NCCL_SHM_DISABLE": ("shm_disable", _flag),
    "NCCL_IB_DISABLE": ("ib_disable", _flag),
    "NCCL_IB_HCA": ("ib_hca", parse_nic_filter),
    "NCCL_NET": ("net", _net),
    "NCCL_NET_GDR_LEVEL": ("gdr_level", _level),
    "NCCL_NET_GDR_C2C": ("gdr_c2c", _flag),
    "NCCL_CROSS_NIC": ("cross_nic", _in(0, 2)),
    "NCCL_PXN_DISABLE": ("pxn_disable", _flag),
    "NCCL_MNNVL_ENABLE": ("mnnvl", _automatic),
}
"""Variable to (field of GraphOverrides, reader)."""
