from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch.distributed as dist

from clusterlab.core.errors import ClusterlabError, DeadlineError, UsageError
from clusterlab.launch import rendezvous, roll_call
from clusterlab.launch.identity import RankIdentity, single_identity
from clusterlab.launch.join import arrive
from clusterlab.launch.pmix_types import PmixClient
from clusterlab.launch.rendezvous import ADDRESS_KEY, Meeting, open_store, part
from clusterlab.launch.stores import StoreAddress, reach_store, serve_store
from tests.launch.environments import recorded
from tests.launch.fake_pmix import FakePmixClient, FakePmixServer


@pytest.fixture(autouse=True)
def no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node names do not resolve, and at once: a resolver that waits is not what is tested here."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: str, *rest: Any, **more: Any) -> Any:
        if host.startswith("n") and host[1:].isdigit():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def on_one_node(rank: int, world_size: int, source: str) -> RankIdentity:
    return RankIdentity(rank, world_size, rank, world_size, 0, socket.gethostname(), source)


def open_all(
    identities: Sequence[RankIdentity],
    environs: Sequence[Mapping[str, str]],
    *,
    pmix: Callable[[int], PmixClient | None] = lambda rank: None,
    timeout_s: float = 10.0,
) -> list[Any]:
    """What each rank's open_store gave: its store, or the error. Ranks are threads."""
    results: list[Any] = [None] * len(identities)

    def one(index: int) -> None:
        me = identities[index]
        try:
            results[index] = open_store(
                me, pmix=pmix(me.rank), environ=environs[index], timeout_s=timeout_s
            )
        except ClusterlabError as error:
            results[index] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(identities))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def assert_one_store(stores: Sequence[Any]) -> None:
    """What the first rank sets, all others read."""
    assert all(isinstance(s, dist.Store) for s in stores), stores
    stores[0].set("key", "value")
    assert [s.get("key") for s in stores] == [b"value"] * len(stores)


def test_a_single_rank_needs_no_network() -> None:
    store = open_store(single_identity(), pmix=None, environ={}, timeout_s=5)
    store.set("key", "value")
    assert store.get("key") == b"value"


def test_the_address_travels_by_pmix_and_needs_no_environment() -> None:
    server = FakePmixServer(3)
    ranks = [on_one_node(r, 3, "pmix") for r in range(3)]
    stores = open_all(ranks, [{}] * 3, pmix=lambda r: FakePmixClient(server, r))
    assert_one_store(stores)
    published = json.loads(server.published[0, ADDRESS_KEY])
    assert published["hosts"] == ["127.0.0.1"]
    assert published["port"] > 0


def test_over_several_nodes_the_address_has_names_the_others_can_use() -> None:
    server = FakePmixServer(2)
    here = socket.gethostname()
    ranks = [RankIdentity(r, 2, 0, 1, r, here, "pmix") for r in range(2)]
    environs = [{"SLURM_STEP_NODELIST": f"{here},localhost"}] * 2
    stores = open_all(ranks, environs, pmix=lambda r: FakePmixClient(server, r))
    assert_one_store(stores)
    hosts = json.loads(server.published[0, ADDRESS_KEY])["hosts"]
    assert hosts[0] in ("127.0.0.1", "::1")  # this host's address on the way to localhost
    assert here in hosts


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_PROBE_S", 0.05)
    monkeypatch.setattr(roll_call, "GRACE_S", 0.5)


@pytest.mark.usefixtures("quick")
def test_a_pmix_peer_that_never_arrives_is_named() -> None:
    server = FakePmixServer(3)
    ranks = [on_one_node(r, 3, "pmix") for r in (0, 2)]
    results = open_all(ranks, [{}] * 2, pmix=lambda r: FakePmixClient(server, r), timeout_s=0.3)
    for error in results:
        assert isinstance(error, DeadlineError)
        assert "rank 1 of 3 did not arrive (PMIx fence did not return within 0.3 s)" in str(error)


@pytest.mark.usefixtures("quick")
def test_a_fence_that_fails_names_who_is_gone() -> None:
    server = FakePmixServer(2)
    (error,) = open_all(
        [on_one_node(0, 2, "pmix")],
        [{}],
        pmix=lambda r: FakePmixClient(server, r, fence_error=-50),
    )
    assert isinstance(error, DeadlineError)
    assert "rank 1 of 2 did not arrive (PMIx fence failed: LOST (-50))" in str(error)


@pytest.mark.usefixtures("quick")
def test_an_implementation_that_cannot_tell_says_so() -> None:
    server = FakePmixServer(2)
    (error,) = open_all(
        [on_one_node(0, 2, "pmix")],
        [{}],
        pmix=lambda r: FakePmixClient(server, r, can_tell=False),
        timeout_s=0.2,
    )
    assert "not all ranks arrived, and which cannot be told" in str(error)


def test_rank_0_that_publishes_no_address_is_refused() -> None:
    server = FakePmixServer(2)
    published = FakePmixClient(server, 0)
    published.put(ADDRESS_KEY, b"rubbish")
    published.commit()
    threading.Thread(target=published.fence, kwargs={"timeout_s": 5}).start()
    (error,) = open_all([on_one_node(1, 2, "pmix")], [{}], pmix=lambda r: FakePmixClient(server, r))
    assert isinstance(error, UsageError)
    assert f"PMIx {ADDRESS_KEY} of rank 0: 'rubbish' is no store address" in str(error)


def slurm_on_this_host(job: int, order: Sequence[int]) -> tuple[list[RankIdentity], list[Any]]:
    """Two nodes of two tasks that are both this host; ``order`` gives the rank of each task."""
    ranks, environs = [], []
    for task, rank in enumerate(order):
        node, local = divmod(task, 2)
        ranks.append(RankIdentity(rank, 4, local, 2, node, f"n{node}", "slurm"))
        environs.append(
            {
                "SLURM_JOB_ID": str(job),
                "SLURM_STEP_ID": "0",
                "SLURM_STEP_NODELIST": "n[0-1]",
                "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
            }
        )
    return ranks, environs


def test_without_pmix_ranks_meet_on_the_first_node() -> None:
    ranks, environs = slurm_on_this_host(101, [0, 1, 2, 3])
    assert_one_store(open_all(ranks, environs))


def test_rank_0_need_not_be_on_the_first_node() -> None:
    ranks, environs = slurm_on_this_host(102, [2, 3, 0, 1])
    assert_one_store(open_all(ranks, environs))


@pytest.mark.usefixtures("quick")
def test_without_pmix_a_rank_that_never_arrives_is_named_to_all() -> None:
    ranks, environs = slurm_on_this_host(103, [0, 1, 2, 3])
    results = open_all(ranks[:3], environs[:3], timeout_s=1.0)
    assert ["rank 3 of 4 did not arrive" in str(error) for error in results] == [True] * 3


def test_a_requeued_step_does_not_meet_its_former_self() -> None:
    ranks, environs = slurm_on_this_host(104, [0, 1, 2, 3])
    names = {rendezvous.step_name(ranks[0], environs[0] | {"SLURM_RESTART_COUNT": n}) for n in "01"}
    assert names == {"104.0.0", "104.0.1"}


def test_mpirun_on_one_host_meets_without_libpmix() -> None:
    environs = [{"PMIX_NAMESPACE": "1898774529"}] * 2
    assert_one_store(open_all([on_one_node(r, 2, "openmpi") for r in range(2)], environs))


def test_mpirun_over_hosts_without_libpmix_is_refused_with_a_way_out() -> None:
    me = RankIdentity(0, 4, 0, 2, 0, "n0", "openmpi")
    with pytest.raises(UsageError, match="install libpmix2"):
        open_store(me, pmix=None, environ={}, timeout_s=1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def test_exported_master_address_makes_rank_0_serve() -> None:
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [on_one_node(r, 2, "environment") for r in range(2)]
    assert_one_store(open_all(ranks, [environ] * 2))


def test_torchruns_agent_serves_and_each_attempt_has_its_own_keys() -> None:
    agent = serve_store(5)
    environ = recorded("torchrun_batch")[0] | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(agent.port),
    }
    ranks = [on_one_node(r, 2, "torchrun") for r in range(2)]
    first = open_all(ranks, [environ] * 2)
    assert_one_store(first)
    second = open_all(ranks, [environ | {"TORCHELASTIC_RESTART_COUNT": "1"}] * 2)
    assert_one_store(second)
    assert not second[0].check(["no such key"])
    assert agent.check(["clusterlab/attempt_1/key"])


@pytest.mark.parametrize("port", ["", "x", "0", "70000"])
def test_a_master_port_that_is_none_is_refused(port: str) -> None:
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with pytest.raises(UsageError, match="MASTER_PORT"):
        open_store(on_one_node(0, 2, "environment"), pmix=None, environ=environ, timeout_s=1)


def test_a_master_port_in_use_is_said() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} cannot be opened"):
            serve_store(1, port=port)


def test_a_store_that_cannot_be_reached_names_every_address() -> None:
    address = StoreAddress(("127.0.0.1", "n7"), free_port())
    with pytest.raises(DeadlineError, match=f"127.0.0.1, n7 port {address.port}"):
        reach_store(address, 0.2)


def test_whoever_serves_the_store_leaves_last() -> None:
    ranks = [on_one_node(r, 3, "openmpi") for r in range(3)]
    store = dist.HashStore()
    order: list[int] = []

    def one(rank: int) -> None:
        time.sleep(0.1 * rank)
        part(ranks[rank], Meeting(store, served_here=rank == 0), timeout_s=10)
        order.append(rank)

    threads = [threading.Thread(target=one, args=(r,)) for r in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert order in ([1, 2, 0], [1, 0, 2])  # the last two leave at the same moment


def test_whoever_serves_the_store_does_not_wait_for_ever() -> None:
    part(on_one_node(0, 2, "pmix"), Meeting(dist.HashStore(), served_here=True), timeout_s=0.05)


def test_an_arrival_joins_and_leaves() -> None:
    environ = recorded("none")[0] | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "1"}
    environ |= {"SLURM_STEP_TASKS_PER_NODE": "1"}
    arrival = arrive(environ)
    assert arrival is not None
    assert arrival.identity.world_size == 1
    arrival.open_store(5).set("key", "value")
    arrival.leave()


def test_a_shell_does_not_arrive_and_a_missing_pmix_is_noted() -> None:
    assert arrive({}) is None
    switched_off = arrive(
        recorded("step")[0] | {"CLUSTERLAB_LIBPMIX": "nosuch.so", "CLUSTERLAB_PMIX": "ctypes"}
    )
    assert switched_off is not None
    assert switched_off.identity.source == "slurm"
    assert "going on without PMIx: libpmix cannot be loaded" in switched_off.notes[0]
