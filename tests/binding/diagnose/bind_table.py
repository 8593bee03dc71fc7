"""Measured Slurm steps (tables of one row a task) as joined records of the node they were measured on.

The node: two sockets of eight cores, eight GPUs, 0-3 on the first socket.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.binding.records import GpuRecord, JoinedRecord, NodeRecord, RankRecord, Slurm
from clusterlab.topology.host import parse_cpu_list

GPUS = tuple(
    GpuRecord(
        i, f"0000:{16 + i:02x}:00.0", f"GPU-{i:08d}-1111-2222-3333-444444444444", i // 4, "H100"
    )
    for i in range(8)
)
DOMAINS = {0: frozenset(range(8)), 1: frozenset(range(8, 16))}
_ENV = (
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "SLURM_CPU_BIND",
    "SLURM_GPU_BIND",
    "SLURM_GPUS_ON_NODE",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_STEP_NODELIST",
    "SLURM_DISTRIBUTION",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One measured step: its name, its rows, and physical GPU ids per (procid, node)."""

    name: str
    rows: tuple[dict[str, str], ...]
    physical: dict[str, tuple[int, ...]]
    constrained: bool

    @property
    def clean(self) -> bool:
        """Whether it ran and nothing was printed about binding."""
        return all(row["rc"] == "0" and row["procid"] for row in self.rows) and not any(
            "rror" in row["stderr"] or "Binding" in row["stderr"] for row in self.rows
        )


def steps(folder: Path) -> Iterator[Step]:
    """All steps of both tables. With ConstrainDevices ids restart per task: the plain twin tells which."""
    plain = dict(_grouped(folder / "plain.csv"))
    for key, rows in plain.items():
        yield Step("/".join(key), tuple(rows), {_id(r): _ids(r) for r in rows}, constrained=False)
    for key, rows in _grouped(folder / "constrain_devices.csv"):
        twin = {_id(r): _ids(r) for r in plain.get(key, [])}
        if all(_id(row) in twin for row in rows if row["procid"]):
            yield Step("/".join(key), tuple(rows), twin, constrained=True)


def _grouped(path: Path) -> Iterator[tuple[tuple[str, ...], list[dict[str, str]]]]:
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["group"], row["label"], row["submit_line"], row["step_line"], row["step"])
            found.setdefault(key, []).append(row)
    yield from found.items()


def _id(row: dict[str, str]) -> str:
    return f"{row['procid']}@{row['nodename']}"


def _ids(row: dict[str, str]) -> tuple[int, ...]:
    """The GPUs of the node that a task of the plain table sees: its mask, or all where it is unset."""
    if row["cvd_is_set"] != "True":
        return tuple(range(8))
    return tuple(int(i) for i in row["CUDA_VISIBLE_DEVICES"].split(",") if i.isdigit())


def record_of(step: Step) -> JoinedRecord:
    """What a doctor would have seen of ``step``, each task taking its local rank (or its one GPU)."""
    nodes = {
        row["nodename"]: NodeRecord(row["nodename"], GPUS, DOMAINS)
        for row in step.rows
        if row["nodename"]
    }
    ranks = tuple(_rank(step, row) for row in step.rows if row["procid"])
    launcher = f"{step.rows[0]['submit_line']}; {step.rows[0]['step_line']}"
    slurm = Slurm(step.constrained, "22.05.8")
    return JoinedRecord(nodes, ranks, launcher, slurm)


def _rank(step: Step, row: dict[str, str]) -> RankRecord:
    env = {name: row[name] for name in _ENV if row[name]}
    env |= {
        "SLURM_PROCID": row["procid"],
        "SLURM_LOCALID": row["localid"],
        "SLURM_STEP_ID": row["step"],
    }
    if row["cvd_is_set"] == "True":
        env["CUDA_VISIBLE_DEVICES"] = row["CUDA_VISIBLE_DEVICES"]
    visible = tuple(GPUS[i].pci for i in step.physical[_id(row)] if i < 8)
    local = int(row["localid"])
    return RankRecord(
        host=row["nodename"],
        rank=int(row["procid"]),
        local_rank=local,
        env=env,
        visible=visible,
        selected_device=0 if len(visible) == 1 else local,
        cpus=frozenset(parse_cpu_list(row["affinity"])),
        openable=visible if step.constrained else None,
    )


def gpus_healthy(record: JoinedRecord) -> bool:
    """Every rank has a GPU of its own, which the job owns: sees one, or takes its local rank's of several."""
    taken = set()
    for rank in record.ranks:
        visible, ordinal = rank.visible or (), rank.selected_device or 0
        if "CUDA_VISIBLE_DEVICES" not in rank.env and not _owns_all(rank):
            return False
        if ordinal >= len(visible) or (rank.host, visible[ordinal]) in taken:
            return False
        taken.add((rank.host, visible[ordinal]))
    return bool(record.ranks)


def _owns_all(rank: RankRecord) -> bool:
    return len(rank.env.get("SLURM_STEP_GPUS", "").split(",")) == 8 or (
        rank.env.get("SLURM_GPUS_ON_NODE") == "8"
    )


def cores_healthy(record: JoinedRecord) -> bool:
    """Every rank has a core next to its GPU, and a single core only for itself."""
    alone: dict[tuple[str, frozenset[int]], int] = {}
    for rank in record.ranks:
        cpus = rank.cpus or frozenset()
        alone[rank.host, cpus] = alone.get((rank.host, cpus), 0) + 1
        pci = (rank.visible or ())[rank.selected_device or 0]
        socket = next(g.numa for g in GPUS if g.pci == pci) or 0
        if not cpus & DOMAINS[socket]:
            return False
    return all(count == 1 or len(cpus) > 2 for (_, cpus), count in alone.items())


def without_cores(record: JoinedRecord) -> JoinedRecord:
    """The record as of a doctor that could not read CPU masks."""
    return replace(record, ranks=tuple(replace(r, cpus=None) for r in record.ranks))
