"""Where ranks sit: rank to host, GPU, NUMA domain, cores and NICs."""

from __future__ import annotations

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


def local_placement(world_size: int, host: str, *, cores: tuple[int, ...] = ()) -> Placement:
    """``world_size`` ranks without GPUs on one host, sharing its cores."""
    return Placement(
        tuple(
            RankPlacement(rank=r, host=host, local_rank=r, cores=cores) for r in range(world_size)
        )
    )
