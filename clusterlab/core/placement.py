"""Where ranks sit: rank to host, GPU, NUMA domain, cores and NICs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import reject_unknown_keys


@dataclass(frozen=True, slots=True)
class RankPlacement:
    """One rank's place. ``gpu`` names the hardware (PCI bus id or UUID), never an index; None: no GPU.

    ``numa`` is None when unknown. ``cores`` lists the CPUs the rank may run on; ``nics`` the devices
    it should use. ``device`` names the rank's end point in the fabric model, where one is known.
    """

    rank: int
    host: str
    local_rank: int
    gpu: str | None = None
    gpu_name: str | None = None
    numa: int | None = None
    cores: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """All ranks of a job, in rank order."""

    ranks: tuple[RankPlacement, ...]

    def __post_init__(self) -> None:
        got = [r.rank for r in self.ranks]
        if got != list(range(len(got))):
            raise UsageError(f"ranks {got}", where="placement", expected="0, 1, … in order")

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names in order of first appearance."""
        return tuple(dict.fromkeys(r.host for r in self.ranks))

    def to_json(self) -> dict[str, Any]:
        """Plain data for placement.json."""
        return {"ranks": [asdict(r) for r in self.ranks]}


def placement_from_json(data: Any, *, where: str = "placement.json") -> Placement:
    """The Placement that ``to_json`` wrote. Raises UsageError on anything else."""
    fields = list(RankPlacement.__dataclass_fields__)
    if not isinstance(data, dict) or not isinstance(data.get("ranks"), list):
        raise UsageError("no list of ranks", where=where, expected='{"ranks": [{"rank": 0, …}, …]}')
    ranks = []
    for i, entry in enumerate(data["ranks"]):
        place = f"{where}: ranks[{i}]"
        if not isinstance(entry, dict):
            raise UsageError(f"not a mapping: {entry!r}", where=place)
        reject_unknown_keys(entry, fields, where=place)
        for name, value in entry.items():
            _check_type(name, value, place)
        try:
            ranks.append(
                RankPlacement(
                    **{
                        **entry,
                        "cores": tuple(entry.get("cores", ())),
                        "nics": tuple(entry.get("nics", ())),
                    }
                )
            )
        except TypeError as error:
            raise UsageError(str(error), where=place) from None
    return Placement(tuple(ranks))


_TEXT, _WHOLE, _NONE = (str,), (int,), (type(None),)
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("rank", "local_rank"), _WHOLE),
    "host": _TEXT,
    **dict.fromkeys(("gpu", "gpu_name", "device"), _TEXT + _NONE),
    "numa": _WHOLE + _NONE,
}
_LISTS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "cores": (_WHOLE, "a list of CPU numbers"),
    "nics": (_TEXT, "a list of device names"),
}
_MOST = 1 << 63
_NAMES = {str: "a string", int: "a whole number", type(None): "null"}


def _check_type(name: str, value: Any, where: str) -> None:
    if name in _LISTS:
        kinds, expected = _LISTS[name]
        fine = isinstance(value, (list, tuple)) and all(_fits(one, kinds) for one in value)
    else:
        kinds = _TYPES[name]
        fine, expected = _fits(value, kinds), " or ".join(_NAMES[kind] for kind in kinds)
    if not fine:
        raise UsageError(f"{value!r:.60}", where=f"{where}: {name}", expected=expected)


def _fits(value: Any, kinds: tuple[type, ...]) -> bool:
    return type(value) in kinds and (type(value) is not int or -_MOST <= value < _MOST)


def local_placement(world_size: int, host: str, *, cores: tuple[int, ...] = ()) -> Placement:
    """``world_size`` ranks without GPUs on one host, sharing its cores."""
    return Placement(
        tuple(
            RankPlacement(rank=r, host=host, local_rank=r, cores=cores) for r in range(world_size)
        )
    )
