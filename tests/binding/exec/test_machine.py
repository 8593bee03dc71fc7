"""What is read of pretend nodes, and the whole plan made of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusterlab.binding.exec.machine import Roots, parse_cpus, read_cpus, read_node_gpus
from clusterlab.binding.exec.plan import Wanted, make_plan
from clusterlab.core.order import number_list

EVERYTHING = Wanted(frozenset({"gpu", "cpu", "nic"}), asked=True)
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURMD_NODENAME": "n0",
}
UUIDS = [f"GPU-{i:08x}-0000-0000-0000-000000000000" for i in range(2)]


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """Two GPUs whose minors run against PCI order, each behind a switch with a NIC, on domains 0 and 1."""
    here = Roots(*(str(tmp_path / name) for name in ("sys", "proc", "dev")))
    for i, bus in enumerate(("18", "9b")):
        gpu = f"0000:{bus}:00.0"
        told = f"Model: \\t\\t NVIDIA H100 80GB HBM3\nGPU UUID: \t {UUIDS[i]}\nDevice Minor: \t {1 - i}\n"
        write(tmp_path / f"proc/driver/nvidia/gpus/{gpu}/information", told)
        write(tmp_path / f"dev/nvidia{i}", "")
        switch = f"pci0000:{bus[0]}0/0000:{bus[0]}0:01.0/0000:{bus[0]}1:00.0"
        devices = {
            gpu: f"{switch}/0000:{bus[0]}2:00.0",
            f"0000:{bus[0]}d:00.0": f"{switch}/0000:{bus[0]}2:01.0",
        }
        for bus_id, port in devices.items():
            folder = tmp_path / f"sys/devices/{port}/{bus_id}"
            write(folder / "numa_node", f"{i}\n")
            link = tmp_path / f"sys/bus/pci/devices/{bus_id}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
        nic = tmp_path / f"sys/class/infiniband/mlx5_{i}"
        write(nic / "ports/1/state", "4: ACTIVE\n")
        (nic / "device").symlink_to(folder)
    return here


def test_the_driver_tells_gpus_in_pci_order_with_their_device_files(roots: Roots) -> None:
    gpus, domains = read_node_gpus({}, [], roots)
    assert [gpu.bus_id for gpu in gpus] == ["0000:18:00.0", "0000:9b:00.0"]
    assert [gpu.uuid for gpu in gpus] == UUIDS
    assert [gpu.file for gpu in gpus] == [f"{roots.dev}/nvidia1", f"{roots.dev}/nvidia0"]
    assert [(gpu.numa, gpu.opens, gpu.mig) for gpu in gpus] == [(0, True, False), (1, True, False)]
    assert domains == {}


def test_on_a_machine_with_one_domain_every_gpu_is_in_it(roots: Roots) -> None:
    for file in Path(roots.sys, "devices").rglob("numa_node"):
        file.write_text("-1\n")
    nodes = Path(roots.sys, "devices/system/node")
    write(nodes / "node0/cpulist", "0-31\n")
    write(nodes / "node1/cpulist", "\n")  # a GPU's memory
    assert [gpu.numa for gpu in read_node_gpus({}, [], roots)[0]] == [0, 0]
    write(nodes / "node1/cpulist", "32-63\n")
    assert [gpu.numa for gpu in read_node_gpus({}, [], roots)[0]] == [None, None]


def test_a_gpu_without_a_device_file_cannot_be_opened(roots: Roots) -> None:
    Path(roots.dev, "nvidia0").unlink()
    gpus, _ = read_node_gpus({}, [], roots)
    assert [gpu.opens for gpu in gpus] == [True, False]


def test_a_gpu_with_instances_is_cut(roots: Roots) -> None:
    write(Path(roots.proc, "driver/nvidia/capabilities/gpu1/mig/gi3/access"), "")
    gpus, _ = read_node_gpus({}, [], roots)
    assert [gpu.mig for gpu in gpus] == [True, False]


def test_without_the_driver_device_files_are_counted_as_numbers(tmp_path: Path) -> None:
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia0"):
        write(tmp_path / "dev" / name, "")
    gpus, _ = read_node_gpus({}, [], Roots(*(str(tmp_path / n) for n in ("sys", "proc", "dev"))))
    assert [gpu.hardware for gpu in gpus] == ["nvidia0", "nvidia2", "nvidia10"]


def test_simulated_nodes_have_the_gpus_of_gres_conf(tmp_path: Path) -> None:
    devices = [tmp_path / f"nvidia{i}" for i in range(2)]
    for device in devices:
        write(device, "")
    lines = [f"Name=gpu File={d} Cores={8 * i}-{8 * i + 7}\n" for i, d in enumerate(devices)]
    write(tmp_path / "gres.conf", "".join(lines))
    environ = {**STEP, "SLURM_CONF": str(tmp_path / "slurm.conf"), "CUDA_VISIBLE_DEVICES": "0,1"}
    nowhere = Roots("/nowhere", "/nowhere", "/nowhere")
    gpus, domains = read_node_gpus(environ, [], nowhere)
    assert [(gpu.hardware, gpu.numa) for gpu in gpus] == [("nvidia0", 0), ("nvidia1", 1)]
    assert domains == {0: tuple(range(8)), 1: tuple(range(8, 16))}
    outside = {k: v for k, v in environ.items() if k != "SLURM_STEP_ID"}
    assert read_node_gpus(outside, [], nowhere) == ((), {})


def test_nothing_found_is_no_error() -> None:
    assert read_node_gpus({}, [], Roots("/nowhere", "/nowhere", "/nowhere")) == ((), {})


@pytest.mark.parametrize("text", ["", "x", "3-", "1,,2", "-1", "99999999999"])
def test_a_list_of_cpus_that_is_none_is_empty(text: str) -> None:
    assert parse_cpus(text) == ()


def test_lists_of_cpus_survive_the_round_trip() -> None:
    assert parse_cpus("0-3,8,10-11") == (0, 1, 2, 3, 8, 10, 11)
    assert number_list(parse_cpus("0-3,8,10-11")) == "0-3,8,10-11"


def test_slurms_count_of_cpus_goes_before_the_cgroups(roots: Roots) -> None:
    write(Path(roots.proc, "self/cgroup"), "0::/job\n")
    write(Path(roots.sys, "fs/cgroup/job/cpuset.cpus.effective"), "0-11\n")
    assert read_cpus({}, [], {}, roots).here == 12
    assert read_cpus({**STEP, "SLURM_CPUS_ON_NODE": "24"}, [], {}, roots).here == 24


def test_a_plan_binds_gpu_cores_and_nic_of_one_side(roots: Roots) -> None:
    mine = sorted(os.sched_getaffinity(0))
    write(Path(roots.sys, "devices/system/node/node1/cpulist"), number_list(tuple(mine)))
    environ = {**STEP, "SLURM_CPUS_ON_NODE": str(len(mine))}
    plan = make_plan(environ, EVERYTHING, roots)
    assert plan.tag == "rank 1 n0 gpu 0000:9b:00.0"
    assert plan.environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert plan.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert plan.environment["NCCL_IB_HCA"] == "=mlx5_1:1"
    assert plan.cpus == tuple(mine)
    assert plan.unfulfilled == ()
    assert plan.to_json()["gpu"]["uuid"] == UUIDS[1]


def test_a_plan_keeps_what_is_set(roots: Roots) -> None:
    given = {"NCCL_IB_HCA": "mlx5_7", "OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": UUIDS[0]}
    plan = make_plan({**STEP, **given}, EVERYTHING, roots)
    assert plan.tag == "rank 1 n0 gpu 0000:18:00.0"
    assert not set(given) & set(plan.environment)


def test_what_a_shell_reads_back_is_what_is_set(roots: Roots) -> None:
    plan = make_plan(STEP, EVERYTHING, roots)
    assert "export NCCL_IB_HCA==mlx5_1:1" in plan.lines()
    assert "export CLUSTERLAB_LOG_TAG='rank 1 n0 gpu 0000:9b:00.0'" in plan.lines()
