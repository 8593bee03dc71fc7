"""What is asked of NVML, and what is made of its silence."""

from __future__ import annotations

import pytest

from clusterlab.topology.discover.nvml import NvmlAbsentError, read_gpus, read_view
from tests.topology.discover.trees import (
    HIDDEN,
    SWITCH,
    FakeGpu,
    FakeNvml,
    FakeNvmlError,
    to_switches,
)


def test_gpus_come_in_pci_order_whatever_nvmls_index_is() -> None:
    nvml = FakeNvml([FakeGpu("0000:1b:00.0", mig=1), FakeGpu("0000:0a:00.0")])
    gpus = read_gpus(nvml)
    assert [(gpu.bus_id, gpu.mig, gpu.shown) for gpu in gpus] == [
        ("0000:0a:00.0", False, True), ("0000:1b:00.0", True, True),
    ]  # fmt: skip
    assert nvml.open == 0


def test_a_library_that_will_not_start_is_absent_for_its_reason() -> None:
    with pytest.raises(NvmlAbsentError, match="Driver Not Loaded"):
        read_view(FakeNvml([], absent="Driver Not Loaded"))


def test_a_gpu_that_fell_out_while_it_was_asked_makes_nvml_absent_and_closes_it() -> None:
    nvml = FakeNvml([FakeGpu("0000:0a:00.0")])

    def lost(gpu: FakeGpu) -> str:
        raise FakeNvmlError("GPU is lost")

    nvml.nvmlDeviceGetUUID = lost  # type: ignore[method-assign]
    with pytest.raises(NvmlAbsentError, match="GPU is lost"):
        read_view(nvml)
    assert nvml.open == 0


def test_links_are_told_with_their_state_far_end_and_rate() -> None:
    links = {**to_switches((1, 0, 0, 0)), 1: (SWITCH, HIDDEN), 2: None}
    (gpu,) = read_view(FakeNvml([FakeGpu("0000:0a:00.0", links=links)])).gpus
    assert [(x.number, x.active, x.remote, x.remote_bus_id, x.wire_GBps) for x in gpu.nvlinks] == [
        (0, True, "switch", "0000:05:00.0", 26.562),
        (1, True, "switch", None, 26.562),
        (2, False, "unknown", None, None),
    ]


def test_what_a_driver_does_not_support_is_unknown() -> None:
    class Old(FakeNvml):
        nvmlDeviceGetMigMode = None  # type: ignore[assignment]
        nvmlDeviceGetGpuFabricInfo = None  # type: ignore[assignment]

    (gpu,) = read_view(Old([FakeGpu("0000:0a:00.0", capability=None)])).gpus
    assert (gpu.capability, gpu.domain, gpu.numa, gpu.cores, gpu.c2c_links) == (
        None,
        None,
        None,
        (),
        0,
    )
    assert gpu.pcie_generation is None


def test_a_racks_domain_is_its_cluster_and_clique() -> None:
    rack = FakeGpu("0000:0a:00.0", cluster=bytes(range(16)), clique=3)
    alone = FakeGpu("0000:0b:00.0")  # a domain of its own host has no cluster
    first, second = read_view(FakeNvml([rack, alone])).gpus
    assert first.domain == "000102030405060708090a0b0c0d0e0f.3"
    assert second.domain is None


def test_distances_have_nvidia_smis_words() -> None:
    gpus = [FakeGpu(f"0000:0{i}:00.0") for i in (1, 2, 3)]
    levels = {("0000:01:00.0", "0000:02:00.0"): 20, ("0000:02:00.0", "0000:03:00.0"): 50}
    assert read_view(FakeNvml(gpus, levels=levels)).levels == (
        ("0000:01:00.0", "0000:02:00.0", "PXB"),
        ("0000:02:00.0", "0000:03:00.0", "SYS"),
    )
