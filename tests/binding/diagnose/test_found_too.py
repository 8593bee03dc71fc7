"""Faults in spellings that are easy to miss, and sound jobs that only look like them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.records import JoinedRecord, RankRecord
from tests.binding.diagnose.jobs import PER_NODE, codes, job, node, slurm_env, torch_env

TWO = ("n0", "n1")


def meeting_at(address: str, hosts: tuple[str, ...] = TWO) -> JoinedRecord:
    size = PER_NODE * len(hosts)
    return job(
        lambda rank, local: torch_env(
            rank, local, size=size, MASTER_ADDR=address, MASTER_PORT="29500"
        ),
        hosts=hosts,
    )


@pytest.mark.parametrize("address", ["", " ", "127.1", "127.0.1", "::ffff:127.0.0.1", "127.0.0.1"])
def test_a_master_that_no_other_host_reaches_is_wrong(address: str) -> None:
    assert "MASTER_ADDR_WRONG" in codes(meeting_at(address))


@pytest.mark.parametrize("address", ["n0", "10.0.127.1", "::ffff:10.0.0.1"])
def test_a_master_on_a_host_of_the_job_is_right(address: str) -> None:
    assert "MASTER_ADDR_WRONG" not in codes(meeting_at(address))


def test_an_empty_master_is_wrong_on_one_host_too_and_loopback_is_not() -> None:
    assert "MASTER_ADDR_WRONG" in codes(meeting_at("", ("n0",)))
    assert "MASTER_ADDR_WRONG" not in codes(meeting_at("127.1", ("n0",)))


@pytest.mark.parametrize("threads", ["0", "-1", "00", " 0 ", "0,4"])
def test_openmp_threads_below_one_are_found(threads: str) -> None:
    found = codes(job(lambda rank, local: {"OMP_NUM_THREADS": threads}))
    assert found["OMP_THREADS"].fix.startswith("export OMP_NUM_THREADS=8")


@pytest.mark.parametrize("threads", ["8", "4,2", "10", "auto"])
def test_other_openmp_values_are_not_taken_for_zero(threads: str) -> None:
    found = diagnose(job(lambda rank, local: {"OMP_NUM_THREADS": threads}))
    assert not any("not a number of threads" in line for f in found for line in f.evidence)


@pytest.mark.parametrize("value", ["eth0, ib0", "=eth0 ,ib0", "^lo, docker0"])
def test_a_space_in_a_list_of_interfaces_is_found(value: str) -> None:
    record = job(
        lambda rank, local: {"NCCL_SOCKET_IFNAME": value},
        hosts=TWO,
        interfaces=("lo", "eth0", "ib0"),
    )
    assert "IFACE_WRONG" in codes(record)


def by_uuid(**fields: Any) -> JoinedRecord:
    uuid = node("n0").gpus[0].uuid or ""
    pci = node("n0").gpus[0].pci
    return job(
        lambda rank, local: {"CUDA_VISIBLE_DEVICES": uuid},
        per_node=1, visible=(pci,), selected_device=0, **fields,
    )  # fmt: skip


def test_a_program_that_cannot_read_uuids_is_found_by_what_it_says_or_counts() -> None:
    said = by_uuid(error='strconv.Atoi: parsing "GPU-8a": invalid syntax')
    assert "CVD_UUID_UNPARSED" in codes(said)
    assert "CVD_UUID_UNPARSED" in codes(by_uuid(declared_devices=0))
    assert "CVD_UUID_UNPARSED" not in codes(by_uuid(declared_devices=1))


@pytest.mark.parametrize("shell", [None, {"RANK": "0", "WORLD_SIZE": "1"}])
@pytest.mark.parametrize("sizes", [{}, {"SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4"}])
def test_a_stale_rank_and_world_size_are_one_cause(
    shell: dict[str, str] | None, sizes: dict[str, str]
) -> None:
    record = job(
        lambda rank, local: slurm_env(rank, local, RANK="0", WORLD_SIZE="1", **sizes),
        parent_env=shell,
    )
    found = diagnose(record)
    roots = [f.code for f in found if f.caused_by is None and f.severity in ("error", "fatal")]
    assert roots == ["STALE_ENV" if shell else "WORLD_SIZE_MISMATCH"]
    assert "RANK_SINGLETON" in {f.code for f in found}


def over_two(rank: RankRecord) -> RankRecord:
    """A rank of two whose model lies on two GPUs of the four that it sees."""
    first = 2 * (rank.local_rank or 0)
    used = (rank.visible or ())[first : first + 2]
    return replace(rank, selected_device=first, contexts=(first, first + 1), used=used)


def test_a_model_spread_over_several_gpus_of_a_rank_is_no_stray_context() -> None:
    def undecided(rank: RankRecord) -> RankRecord:
        return replace(over_two(rank), selected_device=None, contexts=None)

    for change in (over_two, undecided):
        assert "DEVICE_NOT_SET" not in codes(job(torch_env, per_node=2, change=change))


def test_a_context_on_a_gpu_that_a_rank_does_not_compute_on_is_stray() -> None:
    def astray(rank: RankRecord) -> RankRecord:
        return replace(over_two(rank), contexts=(0, 1, 2, 3))

    def crowded(rank: RankRecord) -> RankRecord:
        own = rank.selected_device or 0
        visible = rank.visible or ()
        return replace(rank, contexts=(0, own), used=(visible[0], visible[own]))

    for change in (astray, crowded):
        assert "DEVICE_NOT_SET" in codes(job(torch_env, per_node=2, change=change))
