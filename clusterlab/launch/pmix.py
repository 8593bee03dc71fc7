"""The way to PMIx: connect this rank to the server that started it, or learn why there is none.

Two implementations behind one interface (``pmix_types.PmixClient``): libpmix by ctypes, and the
Python bindings in a helper process. docs/decisions/007-pmix.md says why ctypes comes first.
"""

from __future__ import annotations

from dataclasses import replace

from clusterlab.core.suggest import unknown
from clusterlab.launch import pmix_ctypes
from clusterlab.launch.claims import Environ, foreign_pmix
from clusterlab.launch.pmix_types import (
    WILDCARD_RANK,
    NoPmix,
    PmixClient,
    PmixDeadlineError,
    PmixError,
    PmixFacts,
    read_facts,
)

CHOICES = ("auto", "ctypes", "bindings", "off")


def connect(environ: Environ, *, timeout_s: float = 30.0) -> PmixClient | NoPmix:
    """This rank's PMIx client, or NoPmix with the reason.

    CLUSTERLAB_PMIX picks the implementation (auto, ctypes, bindings, off), CLUSTERLAB_LIBPMIX another
    libpmix. ``auto``: ctypes, and the bindings where libpmix itself cannot be loaded. Raises UsageError
    for another word, PmixDeadlineError when the server does not answer within ``timeout_s``.
    """
    choice = environ.get("CLUSTERLAB_PMIX") or "auto"
    if choice not in CHOICES:
        raise unknown("PMIx implementation", choice, CHOICES, where="CLUSTERLAB_PMIX")
    if choice == "off":
        return NoPmix("switched off by CLUSTERLAB_PMIX=off")
    if not environ.get("PMIX_NAMESPACE") or not environ.get("PMIX_RANK"):
        return NoPmix("no PMIx server started this process (PMIX_NAMESPACE is not set)")
    foreign = foreign_pmix(environ)
    if foreign:
        return NoPmix(foreign)
    made = _connect(choice, environ, timeout_s)
    return replace(made, expected=True) if isinstance(made, NoPmix) else made


def _connect(choice: str, environ: Environ, timeout_s: float) -> PmixClient | NoPmix:
    from clusterlab.launch import pmix_bindings  # seldom needed, and it brings subprocess

    if choice == "bindings":
        return pmix_bindings.connect(timeout_s=timeout_s)
    library = environ.get("CLUSTERLAB_LIBPMIX") or pmix_ctypes.LIBRARY
    first = pmix_ctypes.connect(timeout_s=timeout_s, library=library)
    if not isinstance(first, NoPmix) or choice == "ctypes":
        return first
    if first.code is not None:  # the server refused, not the library: the bindings fare no better
        return first
    second = pmix_bindings.connect(timeout_s=timeout_s)
    if isinstance(second, NoPmix):
        return replace(first, reason=f"{first.reason}; {second.reason}")
    return second


__all__ = [
    "CHOICES",
    "WILDCARD_RANK",
    "NoPmix",
    "PmixClient",
    "PmixDeadlineError",
    "PmixError",
    "PmixFacts",
    "connect",
    "read_facts",
]
