"""What NCCL's and gloo's interface filters would match on a host, each under its library's own grammar. Pure.

NCCL_IB_HCA and NCCL_SOCKET_IFNAME (NCCL's parseStringList): prefixes; ``=`` in front of the whole list makes
names exact, ``^`` excludes, ``^=`` both; ``mlx5_0:1`` names a port. GLOO_SOCKET_IFNAME: exact names.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.binding.diagnose.rendezvous import nccl_matches
from clusterlab.binding.records import JoinedRecord, RankRecord

_HCA = "NCCL_IB_HCA"
_BY_NCCL = "NCCL_SOCKET_IFNAME"
_EXACT = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def filter_lines(record: JoinedRecord, rank: RankRecord) -> list[str]:
    """For each filter that is set, what it matches on the rank's host: ``NCCL_IB_HCA=mlx5 matches …``."""
    node = record.nodes.get(rank.host)
    devices = [nic.name for nic in node.nics if nic.kind != "ethernet"] if node else []
    lines = []
    for variable in (_HCA, _BY_NCCL, *_EXACT):
        text = rank.env.get(variable)
        names = devices if variable == _HCA else rank.interfaces
        if text and names is not None:
            lines.append(f"{variable}={text} {_words(matches(variable, text, names), names)}")
    return lines


def matches(variable: str, text: str, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that the library which reads ``variable`` would take."""
    if variable in _EXACT:
        wanted = text.split(",")
        return [name for name in names if name in wanted]
    return nccl_matches(text, names)


def _words(matched: Sequence[str], names: Sequence[str]) -> str:
    if matched:
        return f"matches {', '.join(matched)}"
    return f"matches nothing here ({', '.join(names) or 'no device'})"
