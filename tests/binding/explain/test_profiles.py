"""Node profiles by name and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.binding.explain.profile import lab_profile
from clusterlab.binding.explain.profile_files import open_profile
from clusterlab.core.errors import UsageError
from tests.binding.explain.ask import ask

FULL = """name: smt
sockets: 2
cores_per_socket: 4
threads_per_core: 2
gpu_type: h100
gpus:
  - {count: 2, cores: 0-3}
  - {count: 2, cores: "4-7"}
  - {}
"""

NODE = "NodeName=n[0-3] Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 Gres=gpu:h100:8 State=UNKNOWN\n"
GRES = """NodeName=n[0-3] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-7
NodeName=n[0-3] Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=8-15
"""
SCONTROL = """NodeName=tux7 Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.10
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=tux7 NodeHostName=tux7 Version=22.05.8
   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A
   Sockets=2 Boards=1
"""


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_lab_is_the_node_of_the_tables() -> None:
    profile = open_profile("lab")
    assert profile == lab_profile()
    assert (profile.sockets, profile.cores, len(profile.gpus)) == (2, 16, 8)
    assert [profile.sockets_of_gpu(gpu) for gpu in (0, 3, 4, 7)] == [{0}, {0}, {1}, {1}]


def test_yaml_says_all_of_it(tmp_path: Path) -> None:
    profile = open_profile(written(tmp_path, "node.yaml", FULL))
    assert (profile.name, profile.cpus, profile.gpu_type) == ("smt", 16, "h100")
    assert [gpu.cores for gpu in profile.gpus] == [{0, 1, 2, 3}] * 2 + [{4, 5, 6, 7}] * 2 + [None]
    assert list(map(sorted, profile.domains)) == [
        [0, 1, 2, 3, 8, 9, 10, 11],
        [4, 5, 6, 7, 12, 13, 14, 15],
    ]


def test_slurm_conf_with_gres_conf_is_the_labs_node(tmp_path: Path) -> None:
    profile = open_profile(written(tmp_path, "slurm.conf", NODE + GRES))
    lab = lab_profile()
    assert (profile.sockets, profile.cores_per_socket) == (2, 8)
    assert (profile.gpus, profile.gpu_type) == (lab.gpus, "h100")


def test_gres_conf_beside_slurm_conf_says_the_gpus_cores(tmp_path: Path) -> None:
    path = written(tmp_path, "slurm.conf", NODE)
    alone = open_profile(path)
    assert not alone.gpu_cores_known
    written(tmp_path, "gres.conf", GRES)
    beside = open_profile(path)
    assert beside.gpu_cores_known
    assert beside.gpus == lab_profile().gpus


def test_unknown_cores_of_gpus_are_said_once_a_job_uses_gpus(tmp_path: Path) -> None:
    profile = open_profile(written(tmp_path, "slurm.conf", NODE))
    line = "srun -N1 -n2 --gpus-per-node=8 --gpu-bind=closest"
    assert any("cores are unknown" in text for text in ask(line, profile=profile).warnings)
    assert not any("unknown" in text for text in ask("srun -N1 -n2", profile=profile).warnings)
    assert not any("unknown" in text for text in ask(line).warnings)


def test_a_design_without_cores_says_so_and_takes_them_from_the_command() -> None:
    with pytest.raises(UsageError, match=r"does not say how many cores.*--cores-per-socket"):
        open_profile("hgx-h100")
    profile = open_profile("hgx-h100", cores_per_socket=48)
    assert (profile.cores_per_socket, len(profile.gpus)) == (48, 8)


def test_a_missing_file_is_not_taken_for_a_fabric(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nope.yaml: no such file; expected a node profile"):
        open_profile(str(tmp_path / "nope.yaml"))


def test_slurm_conf_defaults_and_counts_of_cpus_alone(tmp_path: Path) -> None:
    text = "NodeName=DEFAULT CoresPerSocket=4 ThreadsPerCore=2\nNodeName=a CPUs=16 # login\n"
    profile = open_profile(written(tmp_path, "slurm.conf", text))
    assert (profile.sockets, profile.cpus, profile.gpus) == (2, 16, ())


def test_scontrol_show_node_without_cores_puts_gpus_near_everything(tmp_path: Path) -> None:
    profile = open_profile(written(tmp_path, "node.txt", SCONTROL))
    assert (profile.name, profile.sockets, profile.cpus) == ("tux7", 2, 224)
    assert [gpu.cores for gpu in profile.gpus] == [None] * 8


def test_a_fabrics_domains_are_sockets() -> None:
    profile = open_profile("dgx-h100")
    assert (profile.sockets, profile.cores_per_socket, len(profile.gpus)) == (2, 56, 8)
    assert [min(profile.sockets_of_gpu(gpu)) for gpu in range(8)] == [0] * 4 + [1] * 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (FULL.replace("sockets: 2", "sockets: 0"), "node.yaml:2: sockets: 0; expected a whole"),
        (FULL.replace("cores: 0-3", "cores: 0-9"), "node.yaml:7: gpus[0].cores: cores 0-9"),
        (FULL.replace("cores: 0-3", "cores: x"), "node.yaml:7: gpus[0].cores: 'x'"),
        (FULL.replace("gpu_type", "gputype"), "did you mean 'gpu_type'?"),
        (FULL + "numa: [0-7]\n", "8 of 16 CPUs"),
        (FULL + "numa: [0-7, 7-15]\n", "a CPU in two domains"),
        (FULL + "links: [[1]]\n", "expected 5 numbers of links"),
        (FULL + "cpu_numbers: odd\n", "threads_apart or threads_together"),
        (FULL.replace("cores_per_socket: 4", "cores_per_socket: 99999"), "at most 4096"),
        (FULL.replace("count: 2", "count: 999"), "at most 256"),
        (NODE.replace("Sockets=2", "Sockets=two"), "node.yaml:1: sockets=two"),
        (NODE + GRES.replace("0-7", "0-77"), "cores 0-77"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        open_profile(written(tmp_path, "node.yaml", text))
    assert says in str(error.value)


def test_a_name_that_is_none() -> None:
    with pytest.raises(UsageError, match="lba"):
        open_profile("lba")
