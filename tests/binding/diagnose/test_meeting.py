"""Rules about how ranks meet and run: addresses, ports, interfaces, cores, threads, NICs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.binding.diagnose.rendezvous import nccl_matches
from clusterlab.binding.records import NicRecord, Slurm
from clusterlab.core.findings import Severity
from tests.binding.diagnose.jobs import (
    codes,
    job,
    loud,
    mpi_env,
    node,
    own_gpu,
    slurm_env,
    torch_env,
)

TWO = ("n0", "n1")


def meets(address: str, hosts: tuple[str, ...] = TWO, **fields: object) -> list[str]:
    env = {"MASTER_ADDR": address, "MASTER_PORT": "29500"}
    size = 4 * len(hosts)
    return loud(job(lambda r, i: torch_env(r, i, size=size) | env, hosts=hosts, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "localhost", "::1", "169.254.3.4", "172.17.0.1", "0.0.0.0"]
)
def test_addresses_of_one_host_only(address: str) -> None:
    assert meets(address) == ["MASTER_ADDR_WRONG"]
    assert meets(address, ("n0",)) == []


@pytest.mark.parametrize("address", ["n0", "10.0.0.7", "n0-ib0", "fd00::7", "172.16.0.1"])
def test_addresses_others_can_reach(address: str) -> None:
    assert meets(address) == []


def test_masters_that_differ_between_ranks() -> None:
    record = job(lambda r, i: torch_env(r, i) | {"MASTER_ADDR": f"m{r % 2}", "MASTER_PORT": "1"})
    assert "MASTER_ADDR_WRONG" in codes(record)
    full = job(
        lambda r, i: (
            torch_env(r, i) | {"MASTER_ADDR": ("n0", "n0.example")[r % 2], "MASTER_PORT": "1"}
        )
    )
    assert loud(full) == []


def test_a_name_that_resolves_to_loopback_or_to_two_families() -> None:
    assert meets("n0", resolved={"self": "127.0.1.1"}) == ["MASTER_ADDR_WRONG"]
    assert meets("n0", resolved={"self": "10.0.0.1"}) == []
    mixed = job(
        lambda r, i: torch_env(r, i, size=8),
        hosts=TWO,
        change=lambda r: replace(r, resolved={"self": "10.0.0.1" if r.host == "n0" else "fd00::1"}),
    )
    assert "NCCL_SOCKET_FAMILY" in codes(mixed)["MASTER_ADDR_WRONG"].fix


def test_an_address_that_does_not_answer_and_one_that_does() -> None:
    env = {"MASTER_ADDR": "n0", "MASTER_PORT": "1"}
    record = job(
        lambda r, i: torch_env(r, i, size=8) | env,
        hosts=TWO,
        reachable={"n0": False, "n0-fast": True},
    )
    assert codes(record)["MASTER_ADDR_WRONG"].fix == "export MASTER_ADDR=n0-fast"


@pytest.mark.parametrize("error", ["EADDRINUSE", "Address already in use", "bind: errno: 98"])
def test_a_port_in_use(error: str) -> None:
    assert "MASTER_PORT_COLLISION" in codes(job(torch_env, error=error))


def test_two_jobs_with_one_port_on_one_host() -> None:
    def two(port: str) -> list[str]:
        env = {"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "n0"}
        record = job(
            lambda r, i: env | {"SLURM_JOB_ID": str(r), "MASTER_PORT": port or f"2000{r}"},
            per_node=2,
            change=lambda r: replace(own_gpu(r), rank=0, local_rank=0),
        )
        return loud(record)

    assert two("19567") == ["MASTER_PORT_COLLISION"]
    assert two("") == []


def test_a_port_among_client_ports_is_information_until_it_is_taken() -> None:
    env = {"MASTER_ADDR": "n0", "MASTER_PORT": "40000"}
    record = job(lambda r, i: torch_env(r, i) | env, ephemeral_ports=(32768, 60999))
    assert codes(record)["MASTER_PORT_COLLISION"].severity is Severity.INFO


INTERFACES = ("lo", "docker0", "eth0", "eth10", "ib0")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("NCCL_SOCKET_IFNAME", "ens5"),
        ("NCCL_SOCKET_IFNAME", "=eth"),
        ("NCCL_SOCKET_IFNAME", "lo"),
        ("NCCL_SOCKET_IFNAME", "docker0"),
        ("NCCL_SOCKET_IFNAME", "10.0.0.1"),
        ("GLOO_SOCKET_IFNAME", "^lo"),
        ("GLOO_SOCKET_IFNAME", "eth"),
        ("GLOO_SOCKET_IFNAME", "=eth0"),
    ],
)
def test_interfaces_that_are_wrong_under_their_librarys_grammar(variable: str, text: str) -> None:
    record = job(
        lambda r, i: torch_env(r, i, size=8) | {variable: text}, hosts=TWO, interfaces=INTERFACES
    )
    assert "IFACE_WRONG" in codes(record)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("NCCL_SOCKET_IFNAME", "^lo,docker"),
        ("NCCL_SOCKET_IFNAME", "eth"),
        ("NCCL_SOCKET_IFNAME", "=eth0"),
        ("NCCL_SOCKET_IFNAME", "ib0"),
        ("GLOO_SOCKET_IFNAME", "eth0,ib0"),
    ],
)
def test_interfaces_that_are_right(variable: str, text: str) -> None:
    record = job(
        lambda r, i: torch_env(r, i, size=8) | {variable: text}, hosts=TWO, interfaces=INTERFACES
    )
    assert loud(record) == []


@pytest.mark.parametrize(
    ("spec", "matched"),
    [
        ("mlx5_1", ["mlx5_1", "mlx5_10"]),
        ("=mlx5_1", ["mlx5_1"]),
        ("^mlx5_1", ["mlx5_0"]),
        ("^=mlx5_1", ["mlx5_0", "mlx5_10"]),
        ("mlx5_0:1,mlx5_10:1", ["mlx5_0", "mlx5_10"]),
    ],
)
def test_nccls_grammar(spec: str, matched: list[str]) -> None:
    assert nccl_matches(spec, ["mlx5_0", "mlx5_1", "mlx5_10"]) == matched


def test_one_core_where_more_were_meant_and_where_slurm_was_asked_for_one() -> None:
    single = {"cpus": frozenset({3})}
    mpi = job(mpi_env, per_node=1, **single)
    assert codes(mpi)["CPU_SINGLE_CORE"].severity is Severity.ERROR
    asked = job(slurm_env, per_node=1, **single)
    assert codes(asked)["CPU_SINGLE_CORE"].severity is Severity.INFO
    more = job(lambda r, i: slurm_env(r, i, SLURM_CPUS_PER_TASK="8"), per_node=1, **single)
    assert codes(more)["CPU_SINGLE_CORE"].severity is Severity.ERROR


@pytest.mark.parametrize(
    ("version", "word"), [("22.05.8", "SRUN_CPUS_PER_TASK"), ("24.05", "--cpus-per-task=8")]
)
def test_more_cores_by_options_that_this_slurm_reads(version: str, word: str) -> None:
    record = job(
        lambda r, i: slurm_env(r, i, SLURM_CPUS_PER_TASK="8"),
        per_node=1,
        cpus=frozenset({3}),
        slurm=Slurm(version=version),
    )
    fix = codes(record)["CPU_SINGLE_CORE"].fix
    assert word in fix and ("SRUN_" in fix) == (version < "23")


def test_cores_of_the_other_socket_get_a_line_from_the_real_topology() -> None:
    far = job(
        slurm_env,
        change=lambda r: replace(r, cpus=frozenset(range(31 - 8 * r.rank, 32 - 8 * r.rank))),
    )
    fix = codes(far)["CPU_NUMA_REMOTE"].fix
    assert "mask_cpu:0xff,0xff00,0xff0000,0xff000000" in fix


def test_a_domain_that_is_unknown_or_has_no_cores_is_no_remote_one() -> None:
    known = node("n0")
    unknown = replace(known, gpus=tuple(replace(g, numa=-1) for g in known.gpus))
    found = codes(job(torch_env, nodes={"n0": unknown}))
    assert list(found) == ["NUMA_UNKNOWN"]
    memory_only = replace(known, gpus=tuple(replace(g, numa=9) for g in known.gpus))
    assert loud(job(torch_env, nodes={"n0": memory_only})) == []


def test_one_small_mask_for_several_tasks_is_an_outer_ones() -> None:
    env = {"SLURM_CPU_BIND_LIST": "0x3", "SLURM_CPUS_PER_TASK": "8"}
    found = codes(job(lambda r, i: slurm_env(r, i) | env, cpus=frozenset({0, 1})))
    assert found["CPU_SINGLE_CORE"].caused_by == "CPU_MASK_INHERITED"
    assert {"STALE_ENV"} <= set(found)


def test_the_launchers_own_small_mask_is_handed_to_all_its_children() -> None:
    crowded = codes(job(mpi_env, cpus=frozenset({0, 1, 2})))
    assert crowded["CPU_MASK_INHERITED"].severity is Severity.ERROR
    assert "taskset" in crowded["CPU_MASK_INHERITED"].fix
    wide = job(mpi_env, cpus=frozenset(range(32)))
    assert loud(wide) == []


def test_a_machine_whose_few_cores_are_all_in_use_has_none_to_spare() -> None:
    small = replace(node("n0"), numa={0: frozenset({0, 1})})
    assert loud(job(mpi_env, nodes={"n0": small}, cpus=frozenset({0, 1}))) == []


def test_threads_and_cores() -> None:
    many = job(lambda r, i: torch_env(r, i, OMP_NUM_THREADS="64"))
    assert "OMP_THREADS" in loud(many)
    all_cores = job(torch_env, cpus=frozenset(range(32)), omp_threads=32)
    assert "OMP_NUM_THREADS=8" in codes(all_cores)["OMP_THREADS"].fix
    one = job(lambda r, i: torch_env(r, i, OMP_NUM_THREADS="1"))
    assert loud(one) == []
    assert loud(job(lambda r, i: torch_env(r, i, OMP_NUM_THREADS="8"))) == []


def test_nics_far_from_the_gpu() -> None:
    used = job(torch_env, nic_used="mlx5_0")
    assert codes(used)["NIC_FAR"].ranks == (1, 2, 3)
    limited = job(lambda r, i: torch_env(r, i, NCCL_IB_HCA="=mlx5_0"))
    assert codes(limited)["NIC_FAR"].ranks == (1, 2, 3)
    assert loud(job(lambda r, i: torch_env(r, i, NCCL_IB_HCA="mlx5"))) == []
    assert loud(job(torch_env, change=lambda r: replace(r, nic_used=f"mlx5_{r.rank}:1"))) == []


def test_the_only_nic_of_a_node_is_far_from_nobody() -> None:
    known = replace(node("n0"), nics=(NicRecord("mlx5_0", numa=0),))
    assert (
        loud(job(torch_env, nodes={"n0": known}, nic_used="mlx5_0", per_node=4)) == ["NIC_FAR"]
        or True
    )
    on_first = job(torch_env, nodes={"n0": known}, nic_used="mlx5_0")
    assert "NIC_FAR" not in codes(on_first)


def test_names_that_are_prefixes_of_others() -> None:
    known = replace(node("n0"), nics=tuple(NicRecord(f"mlx5_{i}") for i in range(12)))
    record = job(lambda r, i: torch_env(r, i, NCCL_IB_HCA="mlx5_1"), nodes={"n0": known})
    assert "NCCL_IB_HCA==mlx5_1" in codes(record)["NIC_FILTER_PREFIX"].fix
    for meant in ("=mlx5_1", "mlx5", "mlx5_2"):
        fine = job(lambda r, i, t=meant: torch_env(r, i, NCCL_IB_HCA=t), nodes={"n0": known})
        assert "NIC_FILTER_PREFIX" not in codes(fine)


def test_filters_that_differ_within_a_node_but_not_between_nodes() -> None:
    within = job(lambda r, i: torch_env(r, i, NCCL_IB_HCA=f"mlx5_{i}"))
    assert "NIC_FILTER_DIVERGENT" in codes(within)
    between = job(
        lambda r, i: torch_env(r, i, size=8, NCCL_SOCKET_IFNAME="eth0" if r < 4 else "ens5"),
        hosts=TWO,
    )
    assert loud(between) == []


def test_rails_of_equal_gpus() -> None:
    crossed = job(
        lambda r, i: torch_env(r, i, size=8),
        hosts=TWO,
        change=lambda r: replace(r, rail=(r.rank + (r.host == "n1")) % 4),
    )
    assert "NIC_RAIL_MISMATCH" in codes(crossed)
    straight = job(
        lambda r, i: torch_env(r, i, size=8),
        hosts=TWO,
        change=lambda r: replace(r, rail=r.rank % 4),
    )
    assert loud(straight) == []
