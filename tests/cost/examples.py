"""A calibration and requests that several tests use. Its constants are of this kind of host, not of any."""

from __future__ import annotations

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.cost.calibration import Calibration, Residual
from clusterlab.cost.types import Constant, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import HostFacts, NumaDomain, host_fabric
from clusterlab.topology.place import place_on

HOST = HostFacts("here", "some CPU", "Linux 6", (NumaDomain(0, (0, 1), 8 << 30),))

VALUES = {
    **{f"message_us.{name}": 100.0 + 10 * i for i, name in enumerate(COLLECTIVES)},
    "transport_us_per_MiB": 220.0,
    "copy_us_per_MiB": 80.0,
    "reduce_us_per_MiB": 20.0,
    "reduce_us_per_MiB.float16": 900.0,
    "reduce_us_per_MiB.bfloat16": 30.0,
    "reduce_us_per_MiB.bfloat16_minmax": 300.0,
    "overlap": 1.6,
    "cores": 2.0,
    "core_copy_GBps": 40.0,
}


def calibration(**changes: object) -> Calibration:
    fields: dict[str, object] = {
        "system": HOST.description,
        "fingerprint": HOST.fingerprint,
        "backend": "gloo",
        "library": "torch 2.13.0",
        "world_sizes": (1, 1024),
        "sizes_bytes": (1, 1 << 40),
        "date_utc": "2026-11-29T12:00:00Z",
        "constants": tuple(Constant(n, v, "", "test") for n, v in VALUES.items()),
        "residuals": (Residual("all_reduce", 40, 8.0, 20.0, 6.0, 0.8, 1.25, 0.8),),
        "source": "test calibration",
    }
    return Calibration(**{**fields, **changes})  # type: ignore[arg-type]


def request(
    fabric: Fabric | None = None,
    ranks: int = 4,
    collective: str = "all_reduce",
    size_bytes: int = 1 << 20,
    **changes: object,
) -> PredictRequest:
    """By default: gloo on two cores with the calibration above."""
    if fabric is None:
        fabric = host_fabric(HOST)
        changes = {"calibration": calibration(), **changes}
    groups = one_group(place_on(fabric, ranks))
    return PredictRequest(fabric, groups, collective, size_bytes, **changes)  # type: ignore[arg-type]
