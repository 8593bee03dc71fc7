"""Who may use whose memory, by CUDA and by NVML, where each of them knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusterlab.bench.p2p import access as module
from clusterlab.bench.p2p.access import access_table
from tests.bench.p2p.fakes import gpus


class NVMLError(Exception):
    pass


def nvml(
    status: dict[int, int], *, init: bool = True, known: tuple[str, ...] = ("GPU-0", "GPU-1")
) -> Any:
    """NVML that answers for these capabilities; it counts its sessions."""
    open_ = SimpleNamespace(sessions=0)

    def start() -> None:
        if not init:
            raise NVMLError("Driver Not Loaded")
        open_.sessions += 1

    def stop() -> None:
        open_.sessions -= 1

    def handle(uuid: str) -> str:
        if uuid not in known:
            raise NVMLError("Not Found")
        return uuid

    def ask(_a: str, _b: str, capability: int) -> int:
        if capability not in status:
            raise NVMLError("Invalid Argument")
        return status[capability]

    return SimpleNamespace(
        NVMLError=NVMLError, nvmlInit=start, nvmlShutdown=stop, nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetP2PStatus=ask, open=open_,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (
            nvml({0: 0, 1: 0, 2: 5, 3: 1}),
            {"read": "OK", "write": "OK", "nvlink": "NS", "atomics": "CNS"},
        ),
        (nvml({0: 3, 1: 4}), {"read": "TNS", "write": "DR"}),
        (nvml({0: 99}), {"read": "U"}),
        (nvml({0: 0}, init=False), {}),
        (nvml({0: 0}, known=("GPU-0",)), {}),
    ],
)
def test_nvml_says_what_it_knows_and_is_closed(library: Any, said: dict[str, str]) -> None:
    assert dict(module._ask(library, "GPU-0", "GPU-1")) == said
    assert library.open.sessions == 0


def test_the_table_has_every_ordered_pair() -> None:
    table = access_table(gpus(3), lambda a, b: a < b, lambda a, b: ((a, b),))
    assert [(a.src, a.dst, a.cuda) for a in table] == [
        (0, 1, True), (0, 2, True), (1, 0, False), (1, 2, True), (2, 0, False), (2, 1, False),
    ]  # fmt: skip
    assert table[2].nvml == (("GPU-1", "GPU-0"),)
