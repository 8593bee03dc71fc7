from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.lab import render
from clusterlab.lab.machine import resolve, sized
from clusterlab.lab.spec import LabSpec, Setup
from clusterlab.lab.wires import Nic
from tests.lab.machines import GPU_SERVER, LAYOUT, SMALL

GOLDEN = Path(__file__).parent.parent / "golden" / "lab"

SPEC = LabSpec(nodes=2, gpus=4, cpus=16, sockets=2, memory_mb=6000)
FLAT = LabSpec(nodes=2, gpus=2, cpus=4, sockets=1, flat=True, auth="none", gpu_type="")
REAL = sized(GPU_SERVER, flat=True, extra_conf=("Epilog=/opt/epilog",))
CASES: dict[str, tuple[LabSpec, Setup]] = {
    "namespaces": (SPEC, resolve(SPEC, SMALL, LAYOUT)),
    "flat": (FLAT, resolve(FLAT, SMALL, LAYOUT, ports=(20001, 20002, 20003))),
    "real": (REAL, resolve(REAL, GPU_SERVER, LAYOUT, ports=(20001, 20002))),
}


def texts(spec: LabSpec, setup: Setup) -> dict[str, str]:
    environment = render.slurmd_environment(spec, setup, LAYOUT, "n0")
    return {
        "slurm.conf": render.slurm_conf(spec, setup, LAYOUT),
        "gres.conf": render.gres_conf(spec, setup),
        "cgroup.conf": render.cgroup_conf(),
        "hosts": render.hosts(spec),
        "nsswitch.conf": render.nsswitch("passwd: files sss\nhosts: files dns\n"),
        "taskprolog": render.task_prolog(spec, setup, LAYOUT),
        "task-exports": render.task_exports(spec, setup, LAYOUT, "n0"),
        "slurmd.env": "".join(f"{k}={v}\n" for k, v in sorted(environment.items())),
    }


@pytest.mark.parametrize("case", CASES)
def test_configuration_is_as_reviewed(case: str) -> None:
    """After a wanted change: UPDATE_GOLDEN=1 pytest tests/lab/test_lab_render.py, and read the diff."""
    folder = GOLDEN / case
    found = texts(*CASES[case])
    if os.environ.get("UPDATE_GOLDEN"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in found.items():
            (folder / name).write_text(text, encoding="utf-8")
    golden = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert found == golden


@given(
    sockets=st.integers(1, 4),
    cores=st.integers(1, 32),
    gpus=st.integers(1, 16),
    links=st.integers(0, 40),
)
def test_gres_gives_each_gpu_the_cores_of_its_socket(
    sockets: int, cores: int, gpus: int, links: int
) -> None:
    spec = LabSpec(gpus=gpus, cpus=sockets * cores, sockets=sockets, nvlinks=links)
    lines = render.gres_conf(spec, resolve(spec, SMALL, LAYOUT)).splitlines()
    assert len(lines) == gpus
    for gpu, line in enumerate(lines):
        first, last = map(int, re.search(r"Cores=(\d+)-(\d+)", line).groups())  # type: ignore[union-attr]
        assert first % cores == 0
        assert last == first + cores - 1 < spec.cpus
        row = line.partition("Links=")[2].split(",")
        assert row == ["-1" if other == gpu else str(links) for other in range(gpus)]


@given(st.integers(1, 200))
def test_slurm_conf_names_every_node_and_a_free_port_each_when_flat(nodes: int) -> None:
    spec = LabSpec(nodes=nodes, flat=True)
    ports = tuple(range(10000, 10001 + nodes))
    conf = render.slurm_conf(spec, resolve(spec, SMALL, LAYOUT, ports=ports), LAYOUT)
    found = re.findall(r"NodeName=(n\d+) .* Port=(\d+) ", conf)
    assert found == [(f"n{i}", str(10001 + i)) for i in range(nodes)]
    assert "SlurmctldPort=10000\n" in conf


def test_no_gpus_means_no_gres() -> None:
    spec = LabSpec(gpus=0)
    setup = resolve(spec, SMALL, LAYOUT)
    assert render.gres_conf(spec, setup) == ""
    assert "Gres=" not in render.slurm_conf(spec, setup, LAYOUT)


def test_times_that_decide_how_long_faults_take_are_written() -> None:
    spec = LabSpec(slurmd_timeout_s=3, kill_wait_s=4, cred_expire_s=6)
    conf = render.slurm_conf(spec, resolve(spec, SMALL, LAYOUT), LAYOUT)
    for line in ("SlurmdTimeout=3\n", "KillWait=4\n", "cred_expire=6\n"):
        assert line in conf


def test_without_a_shim_tasks_are_not_bound_and_get_no_preload() -> None:
    machine = replace(SMALL, compiler=None)
    spec = LabSpec()
    setup = resolve(spec, machine, LAYOUT)
    assert "TaskPlugin=task/none\n" in render.slurm_conf(spec, setup, LAYOUT)
    assert "LD_PRELOAD" not in render.task_prolog(spec, setup, LAYOUT)
    assert "LD_PRELOAD" not in render.slurmd_environment(spec, setup, LAYOUT, "n0")


def test_nodes_start_at_different_real_cpus() -> None:
    machine = replace(SMALL, cpus=tuple(range(64)))
    spec = LabSpec(nodes=4, cpus=16)
    setup = resolve(spec, machine, LAYOUT)
    first = [
        render.affinity_environment(spec, setup, LAYOUT, name)["FAKEAFF_REAL"].split(",")[:16]
        for name in ("n0", "n1", "n2", "n3")
    ]
    assert [int(cpu) for node in first for cpu in node] == list(range(64))


@pytest.mark.parametrize(
    "machine", ["", "passwd: files", "hosts: dns\n", "  hosts:  files dns # x\n"]
)
def test_host_names_come_from_files_only(machine: str) -> None:
    lines = render.nsswitch(machine).splitlines()
    assert [line for line in lines if "hosts" in line] == ["hosts: files"]
    assert ("passwd: files" in lines) == ("passwd" in machine)


def test_the_task_prolog_prints_what_slurm_reads(tmp_path: Path) -> None:
    layout = type(LAYOUT)(tmp_path)
    spec = SPEC
    setup = resolve(spec, SMALL, layout)
    layout.node("n1").mkdir()
    layout.task_exports("n1").write_text(render.task_exports(spec, setup, layout, "n1"))
    said = subprocess.run(
        ["sh", "-c", render.task_prolog(spec, setup, layout)],
        env={"SLURMD_NODENAME": "n1", "LD_PRELOAD": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert f"export LD_PRELOAD={tmp_path}/libfakeaff.so" in said
    assert f"export FAKEAFF_DIR={tmp_path}/n1/aff" in said
    assert "export FAKEAFF_NCPU=16" in said


@pytest.mark.parametrize(
    ("local_rank", "chosen", "said"),
    [
        ("0", "", "export GLOO_SOCKET_IFNAME=nic0"),
        ("1", "", "export GLOO_SOCKET_IFNAME=nic1"),
        ("3", "", "export GLOO_SOCKET_IFNAME=nic1"),  # more tasks than GPUs: they take turns
        ("1", "eth0", None),  # the user knows better
    ],
)
def test_with_a_fabric_a_task_is_told_the_nic_of_its_gpu(
    tmp_path: Path, local_rank: str, chosen: str, said: str | None
) -> None:
    layout = type(LAYOUT)(tmp_path)
    spec = replace(SPEC, gpus=2, fabric="lab-rails-4x2")
    setup = replace(resolve(spec, SMALL, layout, several_nics=True), affinity="none")
    layout.task_nics("n1").mkdir(parents=True)
    for gpu in range(2):
        nic = Nic("n1", gpu, f"nic{gpu}", f"10.78.{gpu}.11", "leaf0")
        (layout.task_nics("n1") / str(gpu)).write_text(render.task_nic(nic))
    printed = subprocess.run(
        ["sh", "-c", render.task_prolog(spec, setup, layout)],
        env={
            "SLURMD_NODENAME": "n1",
            "SLURM_LOCALID": local_rank,
            "GLOO_SOCKET_IFNAME": chosen,
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert printed[0] == f"export LD_PRELOAD={layout.source_nic}"
    assert [line for line in printed if "GLOO" in line] == ([said] if said else [])
    assert [line for line in printed if "SOURCENIC" in line] == (
        [f"export SOURCENIC=10.78.{said[-1]}.11"] if said else []
    )


def test_the_names_of_nics_are_known_to_every_host() -> None:
    text = render.hosts(SPEC, [Nic("n1", 0, "nic0", "10.78.0.11", "leaf0")])
    assert "10.78.0.11 n1-nic0" in text.splitlines()
    assert "::ffff:10.78.0.11 n1-nic0" in text.splitlines()
