"""NCCL_IB_HCA: which NICs the user lets NCCL's verbs transport use (`ncclIbInit` of src/transport/net_ib).

``mlx5_0,mlx5_3:1`` begins with one of these; ``=mlx5_0`` is one of these; ``^mlx5_4`` begins with none of
these. A port may follow each name.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.topology.parts import Device

_EXAMPLE = "names of NICs, as mlx5_0,mlx5_1:1 or =mlx5_0 or ^mlx5_bond_0"


@dataclass(frozen=True, slots=True)
class NicFilter:
    """``names`` with a port each, None for any; ``exact``: whole names; ``without``: all NICs but these."""

    names: tuple[tuple[str, int | None], ...]
    exact: bool = False
    without: bool = False

    def allows(self, nic: Device) -> bool:
        """Whether NCCL would use ``nic``, by the name that its host knows it by, or the fabric's."""
        called = {nic.name.rpartition("/")[2], nic.interface or ""} - {""}
        ports = nic.ports or 1
        named = any(
            (one == name if self.exact else one.startswith(name)) and (port or 1) <= ports
            for one in called
            for name, port in self.names
        )
        return named != self.without


def parse_nic_filter(variable: str, text: str) -> NicFilter:
    """What ``variable`` allows. Raises UsageError for an empty list or a port that is no number."""
    rest = text.strip()
    without, rest = rest.startswith("^"), rest.removeprefix("^")
    exact, rest = rest.startswith("="), rest.removeprefix("=")
    names = tuple(_entry(variable, word.strip()) for word in rest.split(",") if word.strip())
    if not names:
        raise UsageError(f"{text!r} names no NIC", where=variable, expected=_EXAMPLE)
    return NicFilter(names, exact, without)


def _entry(variable: str, word: str) -> tuple[str, int | None]:
    name, colon, port = word.partition(":")
    if not name or (
        colon and not (port.isascii() and port.isdecimal() and 0 < int(port[:4]) < 256)
    ):
        raise UsageError(f"{word!r}", where=variable, expected=_EXAMPLE)
    return name, int(port) if colon else None
