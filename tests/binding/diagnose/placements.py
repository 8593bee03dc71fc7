"""Healthy placements of many node profiles and launchers, made at random, as joined records in plain data.

Healthy: every rank drives a GPU of its own that its job owns, has cores in that GPU's NUMA domain, meets
the others at rank 0's host, and uses the nearest NIC or leaves the choice to NCCL.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_MASKS = {
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "ROCR_VISIBLE_DEVICES",
    "intel": "ZE_AFFINITY_MASK",
}

Plain = dict[str, Any]
Env = dict[str, str]


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of node. ``numa``: the GPUs' domains in index order. ``nics``: their near GPUs, or None."""

    name: str
    model: str
    numa: tuple[int, ...]
    domains: int
    cores: int  # per domain
    nics: tuple[int | None, ...]
    smt: bool = False
    nic_name: str = "mlx5_{}"


NVIDIA = (
    Profile("hgx8", "H100-SXM5-80GB", (0, 0, 0, 0, 1, 1, 1, 1), 2, 56, tuple(range(8)), smt=True),
    Profile("hgx8-h200", "H200-SXM5-141GB", (0,) * 4 + (1,) * 4, 2, 48, tuple(range(8))),
    Profile("a100x4-reversed", "A100-SXM4-40GB", (3, 2, 1, 0), 4, 16, (0, 1, 2, 3), True, "hsn{}"),
    Profile("gh200x4", "GH200-120GB", (0, 1, 2, 3), 4, 72, (0, 1, 2, 3), nic_name="hsn{}"),
    Profile("pcie4", "A40-48GB", (0, 0, 1, 1), 2, 32, (None,)),
    Profile("single", "H100-PCIE-80GB", (0,), 1, 32, (None,)),
    Profile("hgx8-vm", "H100-SXM5-80GB", (-1,) * 8, 1, 96, tuple(range(8))),
)
AMD = (
    Profile("mi250x", "MI250X-GCD", (3, 3, 1, 1, 0, 0, 2, 2), 4, 16, (0, 2, 4, 6), True, "hsn{}"),
    Profile("mi300x", "MI300X", (0,) * 4 + (1,) * 4, 2, 48, tuple(range(8)), nic_name="bnxt_re{}"),
)
INTEL = (Profile("pvc6", "Max-1550", (0, 0, 0, 1, 1, 1), 2, 52, (0, 3), True, "hsn{}"),)
MIG = Profile("a100-mig", "A100-SXM4-40GB", (0, 0, 1, 1), 2, 32, (None,))


def cores_of(profile: Profile, domain: int) -> list[int]:
    """The cores of a domain, hyperthreads included."""
    first = domain * profile.cores
    cores = list(range(first, first + profile.cores))
    threads = profile.domains * profile.cores
    return cores + [c + threads for c in cores] if profile.smt else cores


def spell(cores: list[int]) -> str:
    """A CPU list."""
    return ",".join(str(c) for c in sorted(cores))


@dataclass(slots=True)
class Job:
    """What a placement is made of."""

    random: random.Random
    profile: Profile
    hosts: list[str]
    per_node: int
    vendor: str
    nodes: dict[str, Plain]
    brief: bool  # Slurm's variables as far as a wrapper passes them on
    master: str

    @property
    def size(self) -> int:
        return len(self.hosts) * self.per_node

    def pci(self, host: str, gpu: int) -> str:
        return str(self.nodes[host]["gpus"][gpu]["pci"])

    def uuid(self, host: str, gpu: int) -> str:
        return str(self.nodes[host]["gpus"][gpu]["uuid"])


def healthy_placement(seed: int) -> Plain:
    """One healthy placement; the same seed gives the same one."""
    dice = random.Random(seed)
    if dice.random() < 0.1:
        return _mig_placement(dice)
    vendor = dice.choices(["nvidia", "amd", "intel"], [70, 20, 10])[0]
    job = _job(dice, dice.choice({"nvidia": NVIDIA, "amd": AMD, "intel": INTEL}[vendor]), vendor)
    makers: list[Callable[[Job], Plain]] = [
        _srun_unbound,
        _srun_bound,
        _srun_soft_mask,
        _torchrun_in_srun,
        _torchrun,
        _mpirun,
        _container,
    ]
    record = dice.choice(makers)(job)
    record["nodes"] = job.nodes
    if dice.random() < 0.5:
        _drop_details(dice, record)
    return record


def uniform_placement(dice: random.Random, nodes: int) -> Plain:
    """A healthy torchrun job on ``nodes`` nodes of eight GPUs, all details recorded."""
    profile = NVIDIA[0]
    hosts = [f"n{i:04d}" for i in range(nodes)]
    seen = {host: _node(dice, profile, "nvidia") for host in hosts}
    job = Job(dice, profile, hosts, 8, "nvidia", seen, False, hosts[0])
    return _torchrun_in_srun(job) | {"nodes": job.nodes}


def _job(dice: random.Random, profile: Profile, vendor: str) -> Job:
    prefix = dice.choice(["n", "gpu-", "node", "dgx", "x1000c0s"])
    count = dice.choice([1, 1, 2, 3, 4, 8])
    first = dice.randrange(0, 200)
    hosts = [f"{prefix}{first + i:03d}" for i in range(count)]
    domain = dice.choice(["", "", ".cluster.example"])
    hosts = [h + domain for h in hosts]
    per_node = dice.choice([len(profile.numa), max(len(profile.numa) // 2, 1)])
    nodes = {host: _node(dice, profile, vendor) for host in hosts}
    brief = dice.random() < 0.3
    master = hosts[0] if count > 1 else dice.choice(["127.0.0.1", "localhost", hosts[0]])
    return Job(dice, profile, hosts, per_node, vendor, nodes, brief, master)


def _node(dice: random.Random, profile: Profile, vendor: str) -> Plain:
    busses = sorted(dice.sample(range(1, 250), len(profile.numa)))
    gpus = [
        {
            "index": i,
            "pci": f"0000:{busses[i]:02x}:00.0",
            "uuid": _uuid(dice, vendor),
            "numa": numa,
            "model": profile.model,
        }
        for i, numa in enumerate(profile.numa)
    ]
    nics: list[Plain] = []
    for i, near in enumerate(profile.nics):
        nic: Plain = {
            "name": profile.nic_name.format(i),
            "numa": 0 if near is None else profile.numa[near],
        }
        if near is not None:
            nic["near_gpu"] = near
        nics.append(nic)
    nics.append({"name": "eth0", "numa": 0, "kind": "ethernet"})
    numa = {str(d): spell(cores_of(profile, d)) for d in range(profile.domains)}
    return {"profile": profile.name, "gpus": gpus, "numa": numa, "nics": nics}


def _uuid(dice: random.Random, vendor: str) -> str:
    text = f"{dice.getrandbits(128):032x}"
    if vendor == "amd":
        return f"GPU-{text[:16]}"
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _ranks(job: Job, make: Callable[[str, int, int], Plain]) -> list[Plain]:
    """Rank by rank, block order: ``make`` gets host, rank and local rank."""
    return [
        {"host": host, "rank": n * job.per_node + local, "local_rank": local}
        | make(host, n * job.per_node + local, local)
        for n, host in enumerate(job.hosts)
        for local in range(job.per_node)
    ]


def _cores(job: Job, gpu: int) -> str:
    """This GPU's even share of its domain, or the whole domain."""
    domain = job.profile.numa[gpu]
    if domain < 0:
        return spell(cores_of(job.profile, 0))
    cores = cores_of(job.profile, domain)
    if job.random.random() < 0.5:
        return spell(cores)
    there = [g for g, d in enumerate(job.profile.numa) if d == domain]
    share = len(cores) // len(there)
    at = there.index(gpu)
    return spell(cores[at * share : (at + 1) * share])


def _slurm(job: Job, rank: int, local: int) -> Env:
    step = str(job.size)
    env = {
        "SLURM_JOB_ID": "8123",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(rank // job.per_node),
        "SLURM_NTASKS": step,
        "SLURM_STEP_NUM_TASKS": step,
        "SLURM_NNODES": str(len(job.hosts)),
        "SLURM_JOB_NODELIST": ",".join(job.hosts),
        "SLURM_STEP_NODELIST": ",".join(job.hosts),
        "SLURM_STEP_TASKS_PER_NODE": f"{job.per_node}(x{len(job.hosts)})"
        if len(job.hosts) > 1
        else str(job.per_node),
    }
    return {k: env[k] for k in ("SLURM_PROCID", "SLURM_LOCALID")} if job.brief else env


def _torch(job: Job, rank: int, local: int) -> Env:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(job.size),
        "LOCAL_WORLD_SIZE": str(job.per_node),
        "MASTER_ADDR": job.master,
        "MASTER_PORT": "29500",
    }


def _mask(job: Job, host: str, gpus: list[int]) -> Env:
    """The mask that shows ``gpus`` in that order, by index or (NVIDIA) by UUID, whole or begun."""
    text = ",".join(str(g) for g in gpus)
    if job.vendor == "nvidia" and job.random.random() < 0.3:
        length = job.random.choice([100, 16, 12])
        text = ",".join(job.uuid(host, g)[:length] for g in gpus)
    return {_MASKS[job.vendor]: text}


def _sees(job: Job, host: str, gpus: list[int]) -> list[str]:
    return [job.pci(host, g) for g in gpus]


def _all(job: Job) -> list[int]:
    return list(range(len(job.profile.numa)))


def _srun_unbound(job: Job) -> Plain:
    gpus = list(range(job.per_node))
    mask = {h: _mask(job, h, gpus) for h in job.hosts}

    def make(host: str, rank: int, local: int) -> Plain:
        env = _slurm(job, rank, local) | mask[host] | {"SLURM_STEP_GPUS": ",".join(map(str, gpus))}
        return {
            "env": env,
            "visible": _sees(job, host, gpus),
            "selected_device": local,
            "cpus": _cores(job, local),
        }

    line = f"srun -N{len(job.hosts)} --ntasks-per-node={job.per_node} --gpus-per-node={job.per_node} python"
    return {"launcher": line, "ranks": _ranks(job, make)}


def _srun_bound(job: Job) -> Plain:
    constrained = job.random.random() < 0.5
    order = list(range(job.per_node))
    if job.random.random() < 0.3:
        job.random.shuffle(order)

    def make(host: str, rank: int, local: int) -> Plain:
        gpu = order[local]
        env = _slurm(job, rank, local) | {_MASKS[job.vendor]: "0" if constrained else str(gpu)}
        env["SLURM_STEP_GPUS"] = "0" if constrained else str(gpu)
        seen = _sees(job, host, [gpu])
        made: Plain = {"env": env, "visible": seen, "selected_device": 0, "cpus": _cores(job, gpu)}
        return made | ({"openable": seen} if constrained else {})

    bind = ",".join(map(str, order))
    line = (
        f"srun -N{len(job.hosts)} --ntasks-per-node={job.per_node} --gpus-per-node={job.per_node}"
        f" --gpu-bind=map_gpu:{bind} python"
    )
    if order == sorted(order):
        line = f"srun -N{len(job.hosts)} --ntasks-per-node={job.per_node} --gpus-per-task=1 python"
    slurm = {
        "constrain_devices": constrained,
        "version": job.random.choice(["22.05.8", "23.11.4", "24.11"]),
    }
    return {"launcher": line, "slurm": slurm, "ranks": _ranks(job, make)}


def _srun_soft_mask(job: Job) -> Plain:
    everything = {h: _sees(job, h, list(range(job.per_node))) for h in job.hosts}

    def make(host: str, rank: int, local: int) -> Plain:
        env = _slurm(job, rank, local) | _mask(job, host, [local])
        return {
            "env": env,
            "visible": _sees(job, host, [local]),
            "selected_device": 0,
            "cpus": _cores(job, local),
            "openable": everything[host],
            "allocated": everything[host],
        }

    line = f"srun --ntasks-per-node={job.per_node} --gres-flags=allow-task-sharing --gpu-bind=single:1 python"
    return {"launcher": line, "slurm": {"constrain_devices": True}, "ranks": _ranks(job, make)}


def _torchrun_in_srun(job: Job) -> Plain:
    gpus = list(range(job.per_node))
    masks = {h: _mask(job, h, gpus) for h in job.hosts}

    def make(host: str, rank: int, local: int) -> Plain:
        node = rank // job.per_node
        env = {
            "SLURM_PROCID": str(node),
            "SLURM_LOCALID": "0",
            "SLURM_NTASKS": str(len(job.hosts)),
            "SLURM_STEP_NUM_TASKS": str(len(job.hosts)),
            "SLURM_JOB_ID": "91",
            "SLURM_STEP_ID": "0",
        }
        env |= _torch(job, rank, local) | masks[host]
        env |= {"TORCHELASTIC_RUN_ID": "r1", "GROUP_RANK": str(node)}
        return {
            "env": env,
            "visible": _sees(job, host, gpus),
            "selected_device": local,
            "cpus": _cores(job, local),
        }

    line = f"srun --ntasks-per-node=1 torchrun --nproc_per_node={job.per_node} --numa-binding=node"
    return {"launcher": line, "ranks": _ranks(job, make)}


def _torchrun(job: Job) -> Plain:
    gpus = job.random.sample(_all(job), job.per_node)  # a permuted subset is legal
    masks = {h: _mask(job, h, gpus) for h in job.hosts}
    unset = len(gpus) == len(job.profile.numa) and job.random.random() < 0.5
    if unset:
        gpus = sorted(gpus)

    def make(host: str, rank: int, local: int) -> Plain:
        env = _torch(job, rank, local) | ({} if unset else masks[host])
        if job.random.random() < 0.7:
            env["TORCHELASTIC_RUN_ID"] = "none"
        env["OMP_NUM_THREADS"] = job.random.choice(["1", "4", "8"])
        return {
            "env": env,
            "visible": _sees(job, host, gpus),
            "selected_device": local,
            "cpus": _cores(job, gpus[local]),
        }

    return {
        "launcher": f"torchrun --nproc_per_node={job.per_node} train.py",
        "ranks": _ranks(job, make),
    }


def _mpirun(job: Job) -> Plain:
    narrow = job.random.random() < 0.5
    gpus = list(range(job.per_node))
    spread = job.random.random() < 0.3  # MASTER_* and RANK from a wrapper

    def make(host: str, rank: int, local: int) -> Plain:
        env = {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
            "OMPI_COMM_WORLD_SIZE": str(job.size),
            "PMIX_RANK": str(rank),
        }
        if spread:
            env |= _torch(job, rank, local)
        sees = [local] if narrow else _all(job)
        env |= _mask(job, host, sees) if narrow else {}
        made: Plain = {
            "env": env,
            "visible": _sees(job, host, sees),
            "selected_device": 0 if narrow else gpus[local],
            "cpus": _cores(job, local),
        }
        near = next((i for i, g in enumerate(job.profile.nics) if g == local), None)
        if near is not None and job.random.random() < 0.5:
            made["nic_used"] = job.profile.nic_name.format(near)
            env["UCX_NET_DEVICES"] = f"{job.profile.nic_name.format(near)}:1"
        return made

    return {"launcher": f"mpirun -np {job.size} --bind-to none ./app", "ranks": _ranks(job, make)}


def _container(job: Job) -> Plain:
    """Each rank in a container of its own with one GPU, numbered from 0 inside, all variables passed."""

    def make(host: str, rank: int, local: int) -> Plain:
        env = _slurm(job, rank, local) | {"PMIX_RANK": str(rank)}
        inside = dict(env)
        if job.random.random() < 0.5:
            inside["NVIDIA_VISIBLE_DEVICES"] = str(local)
        if job.random.random() < 0.5 and job.vendor == "nvidia":
            inside["CUDA_VISIBLE_DEVICES"] = "0"
        seen = _sees(job, host, [local])
        return {
            "env": inside,
            "host_env": env,
            "container": {
                "runtime": job.random.choice(["enroot", "docker", "podman"]),
                "devices": [local],
            },
            "visible": seen,
            "openable": seen,
            "selected_device": 0,
            "cpus": _cores(job, local),
        }

    return {"launcher": "srun --container-image=torch.sqsh python", "ranks": _ranks(job, make)}


def _mig_placement(dice: random.Random) -> Plain:
    """One rank per MIG instance, each of a GPU of its own."""
    job = _job(dice, MIG, "nvidia")
    slices: dict[str, list[Plain]] = {}
    for host in job.hosts:
        slices[host] = [
            {"uuid": "MIG-" + _uuid(dice, "nvidia")[4:], "parent": gpu, "profile": "3g.20gb"}
            for gpu in range(4)
            for _ in range(2)
        ]
        job.nodes[host]["mig"] = slices[host]

    def make(host: str, rank: int, local: int) -> Plain:
        mine = str(slices[host][2 * local]["uuid"])
        env = _torch(job, rank, local) | {"CUDA_VISIBLE_DEVICES": mine}
        return {"env": env, "visible": [mine], "selected_device": 0, "cpus": _cores(job, local)}

    return {"launcher": "launch.sh python", "nodes": job.nodes, "ranks": _ranks(job, make)}


def _drop_details(dice: random.Random, record: Plain) -> None:
    """What a doctor could not see: the same field of every rank, or of the nodes."""
    for name in ("cpus", "openable", "nic_used", "allocated"):
        if dice.random() < 0.3:
            for rank in record["ranks"]:
                rank.pop(name, None)
    if dice.random() < 0.2:
        for node in record["nodes"].values():
            node["nics"] = []
    if dice.random() < 0.2:
        record["launcher"] = ""
