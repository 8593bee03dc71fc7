"""What a rank sees of a pretend machine: three layers of visibility, cores, NICs, launchers."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from clusterlab.binding.probe import Machine, join_parts, probe_here
from clusterlab.binding.records import (
    JoinedRecord,
    NodeRecord,
    RankRecord,
    read_record,
    record_to_json,
)
from clusterlab.launch.identity import RankIdentity, single_identity
from tests.binding.machines import add_driver, bus_id, machine, no_nvml, nvml_shows, uuid

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}
BOTH = (bus_id(0), bus_id(1))


def rank_of(rank: int, world_size: int = 2) -> RankIdentity:
    return RankIdentity(rank, world_size, rank, world_size, 0, "n0", "slurm")


def probed(here: Machine, rank: int = 0, world_size: int = 2, **environ: str) -> JoinedRecord:
    return probe_here(rank_of(rank, world_size), environ, machine=here)


def only(record: JoinedRecord) -> tuple[RankRecord, NodeRecord]:
    (rank,), (node,) = record.ranks, record.nodes.values()
    return rank, node


def test_a_rank_knows_its_hardware(tmp_path: Path) -> None:
    here = machine(tmp_path, cores=(8, 9))
    rank, node = only(probed(here, 1, NCCL_DEBUG="INFO", AWS_TOKEN="x", RANK="1", **STEP))
    assert (rank.visible, rank.openable, rank.selected_device) == (BOTH, BOTH, 1)
    assert [(g.pci, g.uuid, g.numa, g.model) for g in node.gpus] == [
        (bus_id(i), uuid(i), i, "NVIDIA H100") for i in (0, 1)
    ]
    assert node.numa == {0: frozenset(range(8)), 1: frozenset(range(8, 16))}
    assert [(n.name, n.near_gpu) for n in node.nics] == [("mlx5_0", 0), ("mlx5_1", 1)]
    assert rank.nearest_nics == ("mlx5_1 PIX",)
    assert rank.env == {"NCCL_DEBUG": "INFO", "RANK": "1", **STEP}
    assert rank.identity_from == "slurm"
    assert rank.notes == ()


def test_a_device_cgroup_leaves_the_node_its_gpus_and_takes_them_from_the_process(
    tmp_path: Path,
) -> None:
    add_driver(tmp_path)
    here = machine(
        tmp_path,
        nvml=lambda: (nvml_shows(1), ()),
        attempt=lambda path: None if path.endswith("nvidia0") else errno.EPERM,
    )
    rank, node = only(probed(here, 0, CUDA_VISIBLE_DEVICES="0"))
    assert [g.pci for g in node.gpus] == list(BOTH)
    assert rank.openable == (bus_id(1),)  # its device minor is 0
    assert (rank.visible, rank.selected_device) == ((bus_id(1),), 0)
    assert rank.notes == (f"{bus_id(0)}: a device cgroup forbids to open it",)


def test_without_nvml_the_driver_and_the_bus_still_tell_which_gpus_there_are(
    tmp_path: Path,
) -> None:
    add_driver(tmp_path)
    rank, node = only(probed(machine(tmp_path, nvml=no_nvml), 1))
    assert [g.uuid for g in node.gpus] == [uuid(0), uuid(1)]
    assert rank.visible == BOTH
    assert rank.notes == ("NVML not available: NVML Shared Library Not Found",)


def test_without_nvml_and_driver_what_may_be_opened_is_unknown_and_said(tmp_path: Path) -> None:
    rank, node = only(probed(machine(tmp_path, nvml=no_nvml)))
    assert [g.pci for g in node.gpus] == list(BOTH)
    assert (rank.openable, rank.visible, rank.selected_device) == (None, None, None)
    assert "may be opened is not known" in rank.notes[1]


def test_a_node_without_gpus_has_none_and_says_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    here = Machine(sys=tmp_path / "sys", root=tmp_path, nvml=lambda: ((), ()), cores=(0,))
    rank, node = only(probed(here))
    assert (node.gpus, rank.visible, rank.openable, rank.notes) == ((), None, None, ())


def test_gres_conf_stands_in_where_nothing_else_shows_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "slurm.conf").write_text("TaskPlugin=task/affinity,task/cgroup\n")
    (tmp_path / "cgroup.conf").write_text("ConstrainDevices=yes # all\n")
    (tmp_path / "gres.conf").write_text(
        "NodeName=n[0-1] Name=gpu Type=h100 File=/dev/nvidia[0-1] Cores=0-7\n"
        "NodeName=n0 Name=gpu Type=h100 File=/dev/nvidia2 Cores=8-15\n"
        "NodeName=n9 Name=gpu File=/dev/nvidia9\n"
    )
    here = Machine(
        sys=tmp_path / "sys", root=tmp_path, nvml=no_nvml, attempt=lambda path: None, cores=(8,)
    )
    environ = STEP | {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    record = probed(here, 1, CUDA_VISIBLE_DEVICES="0,2", **environ)
    rank, node = only(record)
    assert [(g.pci, g.numa) for g in node.gpus] == [("nvidia0", 0), ("nvidia1", 0), ("nvidia2", 1)]
    assert node.numa == {0: frozenset(range(8)), 1: frozenset(range(8, 16))}
    assert (rank.visible, rank.selected_device) == (("nvidia0", "nvidia2"), 1)
    assert record.slurm.constrain_devices is True
    assert any("gres.conf" in note for note in rank.notes)


def test_more_ranks_than_gpus_ask_for_one_beyond(tmp_path: Path) -> None:
    rank, _ = only(probed(machine(tmp_path), 3, 4))
    assert (rank.visible, rank.selected_device) == (BOTH, 3)


def test_models_that_differ_leave_the_order_open_unless_it_is_fixed(tmp_path: Path) -> None:
    mixed = [*nvml_shows(0), *nvml_shows(1, model="NVIDIA L4")]
    here = machine(tmp_path, nvml=lambda: (mixed, ()))
    rank, _ = only(probed(here))
    assert rank.visible is None
    assert "counts the fastest first" in rank.notes[0]
    fixed, _ = only(probed(here, CUDA_DEVICE_ORDER="PCI_BUS_ID"))
    assert fixed.visible == BOTH
    named, _ = only(probed(here, CUDA_VISIBLE_DEVICES=uuid(1)))
    assert named.visible == (bus_id(1),)


def test_a_mig_instance_stands_for_its_gpu(tmp_path: Path) -> None:
    cut = [
        nvml_shows(0)[0],
        nvml_shows(1)[0].__class__(bus_id(1), "nvidia", uuid=uuid(1), mig=True, shown=True),
    ]
    slices = (("MIG-a", bus_id(1)), ("MIG-b", bus_id(1)))
    here = machine(tmp_path, nvml=lambda: (cut, slices))
    rank, node = only(probed(here, 0, 1, CUDA_VISIBLE_DEVICES="MIG-b"))
    assert rank.visible == ("MIG-b",)
    assert [(m.uuid, m.parent) for m in node.mig] == [("MIG-a", 1), ("MIG-b", 1)]
    assert rank.nearest_nics == ("mlx5_1 PIX",)


def test_cores_that_sys_does_not_know_leave_the_domains_unknown(tmp_path: Path) -> None:
    _, node = only(probed(machine(tmp_path, cores=(0, 99))))
    assert node.numa == {}


@pytest.mark.parametrize(
    ("environ", "files", "runtime"),
    [
        ({}, [], None),
        ({}, [".dockerenv"], "docker"),
        ({}, ["run/.containerenv"], "podman"),
        ({"APPTAINER_CONTAINER": "x.sif"}, [], "apptainer"),
        ({"ENROOT_ROOTFS": "/x"}, [], "enroot"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, [], "kubernetes"),
    ],
)
def test_containers_are_known_by_what_they_leave(
    tmp_path: Path, environ: dict[str, str], files: list[str], runtime: str | None
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    rank, _ = only(probed(machine(tmp_path), **environ))
    assert (rank.container.runtime if rank.container else None) == runtime


def test_what_binding_slurm_was_asked_for_is_kept(tmp_path: Path) -> None:
    record = probed(machine(tmp_path), SLURMD_TRES_BIND="gpu:map_gpu:1,0", **STEP)
    assert record.launcher == "srun --gpu-bind=map_gpu:1,0"


def test_a_part_survives_the_way_through_json(tmp_path: Path) -> None:
    record = probed(machine(tmp_path), **STEP)
    assert read_record(json.loads(json.dumps(record_to_json(record))), file="x") == record


def test_ranks_that_see_different_gpus_of_a_node_know_it_together(tmp_path: Path) -> None:
    parts = []
    for i in (0, 1):
        root = tmp_path / str(i)
        add_driver(root)
        for folder in (root / "proc/driver/nvidia/gpus").iterdir():
            text = (folder / "information").read_text()
            (folder / "information").write_text(text.replace("GPU-", "GPU-?"))
        here = machine(root, nvml=lambda i=i: (nvml_shows(i), ()))
        parts.append(probed(here, i))
    joined = join_parts(parts, missing=[2])
    assert [g.uuid for g in joined.nodes["n0"].gpus] == [uuid(0), uuid(1)]
    assert [r.rank for r in joined.ranks] == [0, 1]
    assert joined.missing_ranks == (2,)


def test_this_machine_can_be_looked_at_whatever_it_is() -> None:
    rank, _ = only(probe_here(single_identity(), {}))
    assert rank.cpus == frozenset(os.sched_getaffinity(0))
    assert "lo" in (rank.interfaces or ())
