"""What is bound: GPU masks, cores and NICs, on pretend nodes."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.exec.cores import choose_cores, physical_cores, share
from clusterlab.binding.exec.gpu import GpuChoice, choose_gpu, device_order, unless_narrowed
from clusterlab.binding.exec.nic import choose_nics
from clusterlab.binding.exec.scene import Cpus, NearNic, NodeGpu
from clusterlab.binding.masks import evaluate_cuda_mask, evaluate_rocm_masks
from clusterlab.core.errors import UsageError
from clusterlab.launch.identity import RankIdentity


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def node(count: int = 8, *, per_domain: int = 4, opens: range | None = None) -> tuple[NodeGpu, ...]:
    return tuple(
        NodeGpu(
            "nvidia",
            f"0000:{0x10 + i:02x}:00.0",
            uuid(i),
            "H100",
            f"/dev/nvidia{i}",
            numa=i // per_domain,
            opens=opens is None or i in opens,
        )
        for i in range(count)
    )


def rank(local: int, size: int) -> RankIdentity:
    return RankIdentity(local, size, local, size, 0, "n0", "slurm")


def chosen(local: int, size: int, gpus: tuple[NodeGpu, ...], **environ: str) -> GpuChoice:
    return choose_gpu(rank(local, size), gpus, environ)


def test_without_a_mask_each_local_rank_is_left_its_own_gpu() -> None:
    for local in range(8):
        found = chosen(local, 8, node())
        assert found.narrowed == {"CUDA_VISIBLE_DEVICES": str(local)}
        assert found.label == f"0000:{0x10 + local:02x}:00.0"


def test_exactly_one_gpu_given_by_the_launcher_stays_as_it_is() -> None:
    found = chosen(1, 2, node(), CUDA_VISIBLE_DEVICES="6")
    assert (found.narrowed, found.gpu) == ({}, node()[6])


def test_a_mask_is_narrowed_in_its_own_words() -> None:
    by_number = chosen(1, 2, node(), CUDA_VISIBLE_DEVICES="5, 3")
    assert (by_number.narrowed, by_number.gpu) == ({"CUDA_VISIBLE_DEVICES": "3"}, node()[3])
    by_uuid = chosen(1, 2, node(), CUDA_VISIBLE_DEVICES=f"{uuid(2)},{uuid(7)}")
    assert (by_uuid.narrowed, by_uuid.gpu) == ({"CUDA_VISIBLE_DEVICES": uuid(7)}, node()[7])


def test_under_a_device_cgroup_numbers_count_what_may_be_opened() -> None:
    gpus = node(opens=range(4, 8))
    found = chosen(2, 4, gpus, CUDA_VISIBLE_DEVICES="0,1,2,3")
    assert (found.narrowed, found.gpu) == ({"CUDA_VISIBLE_DEVICES": "2"}, gpus[6])
    isolated = chosen(3, 4, node(opens=range(3, 4)), CUDA_VISIBLE_DEVICES="0")
    assert (isolated.narrowed, isolated.label) == ({}, "0000:13:00.0")
    assert "node has 8, 1 may be opened, the mask shows 1" in isolated.why


@pytest.mark.parametrize("mask", ["", "9", "0,0", "-1"])
def test_no_visible_gpu_is_a_problem_of_this_rank(mask: str) -> None:
    found = chosen(0, 2, node(), CUDA_VISIBLE_DEVICES=mask)
    assert (found.gpu, found.label) == (None, "none")
    assert found.problem == "no GPU is visible to this rank"


def test_fewer_gpus_than_ranks_are_a_problem_unless_each_has_its_own() -> None:
    found = chosen(1, 4, node(), CUDA_VISIBLE_DEVICES="0,1")
    assert (found.label, found.problem) == ("?", "4 ranks on this node, 2 visible GPUs")
    mine = choose_gpu(rank(1, 4), node(), {"CUDA_VISIBLE_DEVICES": "2,3"}, gpus_on_node=8)
    assert (mine.narrowed, mine.gpu) == ({"CUDA_VISIBLE_DEVICES": "2"}, node()[2])


def test_the_only_rank_of_a_node_that_sees_several_may_drive_any() -> None:
    found = chosen(0, 1, node())
    assert found.label == "0000:10:00.0"
    kept = unless_narrowed(found, rank(0, 1))
    assert (kept.gpu, kept.label) == (None, "?")
    one = chosen(0, 1, node(), CUDA_VISIBLE_DEVICES="3")
    assert unless_narrowed(one, rank(0, 1)) == one


def test_where_models_differ_numbers_name_no_hardware_without_pci_order() -> None:
    gpus = (*node(1), node(2)[1]._replace(model="T4"))
    unsure = chosen(1, 2, gpus, CUDA_VISIBLE_DEVICES="0,1")
    assert (unsure.label, unsure.narrowed) == ("?", {"CUDA_VISIBLE_DEVICES": "1"})
    sure = chosen(1, 2, gpus, CUDA_VISIBLE_DEVICES="0,1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert sure.gpu == gpus[1]


def test_mig_instances_are_left_and_named_by_the_mask() -> None:
    name = "MIG-8a7b3c1d-0000-5000-8000-000000000000"
    found = chosen(1, 2, node(), CUDA_VISIBLE_DEVICES=name)
    assert (found.narrowed, found.label) == ({}, "MIG-8a7b3c1d")
    cut = tuple(gpu._replace(mig=True) for gpu in node(2))
    assert chosen(0, 1, cut).label == "?"


def test_without_an_inventory_the_mask_alone_decides() -> None:
    assert chosen(0, 2, ()).label is None
    numbers = chosen(1, 2, (), CUDA_VISIBLE_DEVICES="4,5")
    assert (numbers.label, numbers.narrowed) == ("?", {"CUDA_VISIBLE_DEVICES": "5"})
    names = chosen(1, 2, (), CUDA_VISIBLE_DEVICES=f"{uuid(4)},{uuid(5)}")
    assert names.label == uuid(5)[:12]


def test_on_amd_hips_mask_counts_what_rocr_left() -> None:
    gpus = tuple(NodeGpu("amd", f"0000:{i:02x}:00.0", f"GPU-{i:016x}") for i in range(4))
    found = chosen(1, 2, gpus, ROCR_VISIBLE_DEVICES="3,1,0")
    assert (found.narrowed, found.gpu) == ({"HIP_VISIBLE_DEVICES": "1"}, gpus[1])
    hip = chosen(1, 2, gpus, ROCR_VISIBLE_DEVICES="3,1,0", HIP_VISIBLE_DEVICES="2,0")
    assert (hip.narrowed, hip.gpu) == ({"HIP_VISIBLE_DEVICES": "0"}, gpus[3])


MASKS = st.one_of(
    st.none(),
    st.lists(st.integers(-1, 9).map(str) | st.sampled_from(["x", "1gpu", " 2", ""])).map(",".join),
    st.lists(st.integers(0, 8).map(uuid), min_size=1).map(",".join),
)


@given(MASKS, st.sets(st.integers(0, 7)), st.integers(1, 8), st.data())
def test_a_narrowed_mask_shows_the_one_gpu_chosen_and_nothing_the_old_one_hid(
    mask: str | None, opens: set[int], size: int, data: st.DataObject
) -> None:
    local = data.draw(st.integers(0, size - 1))
    gpus = tuple(g._replace(opens=i in opens) for i, g in enumerate(node()))
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    found = choose_gpu(rank(local, size), gpus, environ)
    mine = [gpu for gpu in gpus if gpu.opens]
    before = evaluate_cuda_mask(mask, [gpu.uuid or "" for gpu in mine]).devices
    if found.problem:
        assert found.gpu is None
        return
    after = evaluate_cuda_mask(
        found.narrowed.get("CUDA_VISIBLE_DEVICES", mask), [gpu.uuid or "" for gpu in mine]
    ).devices
    assert len(after) == 1
    assert after[0] in before
    assert mine[after[0]] == found.gpu


@given(
    st.none() | st.lists(st.integers(0, 4)).map(lambda x: ",".join(map(str, x))),
    st.none() | st.lists(st.integers(0, 4)).map(lambda x: ",".join(map(str, x))),
    st.integers(1, 4),
    st.data(),
)
def test_a_narrowed_hip_mask_shows_the_one_gpu_chosen(
    rocr: str | None, hip: str | None, size: int, data: st.DataObject
) -> None:
    local = data.draw(st.integers(0, size - 1))
    gpus = tuple(NodeGpu("amd", f"0000:{i:02x}:00.0", f"GPU-{i:016x}") for i in range(4))
    masks = {"ROCR_VISIBLE_DEVICES": rocr, "HIP_VISIBLE_DEVICES": hip}
    environ = {name: mask for name, mask in masks.items() if mask is not None}
    found = choose_gpu(rank(local, size), gpus, environ)
    if found.problem:
        return
    uuids = [gpu.uuid or "" for gpu in gpus]
    (after,) = evaluate_rocm_masks({**environ, **found.narrowed}, uuids).devices
    assert gpus[after] == found.gpu
    assert after in evaluate_rocm_masks(environ, uuids).devices


def test_pci_order_is_set_unless_a_mask_was_written_for_another() -> None:
    assert device_order({}, node(), in_slurm=False) == "PCI_BUS_ID"
    assert device_order({"CUDA_VISIBLE_DEVICES": "0"}, node(), in_slurm=True) == "PCI_BUS_ID"
    assert device_order({"CUDA_VISIBLE_DEVICES": "0"}, node(), in_slurm=False) is None
    assert device_order({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, node(), in_slurm=True) is None
    assert device_order({}, (), in_slurm=True) is None


DOMAINS = {0: tuple(range(16)), 1: tuple(range(16, 32))}


def cpus(mine: range | tuple[int, ...] = range(32), here: int = 32) -> Cpus:
    return Cpus(tuple(mine), here, DOMAINS)


def test_ranks_on_all_cores_share_their_gpus_domain() -> None:
    given = [choose_cores(rank(r, 8), chosen(r, 8, node()), node(), cpus()) for r in range(8)]
    assert [c.cpus for c in given] == [tuple(range(4 * r, 4 * r + 4)) for r in range(8)]
    assert {c.threads for c in given} == {4}


def test_a_domain_is_shared_by_the_ranks_that_use_its_gpus() -> None:
    spread = {"CUDA_VISIBLE_DEVICES": "0,4,5"}
    given = [
        choose_cores(rank(r, 3), choose_gpu(rank(r, 3), node(), spread), node(), cpus())
        for r in range(3)
    ]
    assert [c.cpus for c in given] == [DOMAINS[0], tuple(range(16, 24)), tuple(range(24, 32))]


def test_isolated_ranks_never_get_the_same_core() -> None:
    given = [
        choose_cores(rank(r, 8), chosen(r, 8, node(), CUDA_VISIBLE_DEVICES=str(r)), node(), cpus())
        for r in range(8)
    ]
    sets = [set(c.cpus or ()) for c in given]
    assert all(sets)
    assert all(not a & b for a, b in combinations(sets, 2))


def test_cores_that_the_launcher_gave_to_this_rank_alone_stay() -> None:
    near = choose_cores(rank(0, 8), chosen(0, 8, node()), node(), cpus(range(4)))
    assert (near.cpus, near.threads, near.unfulfilled) == (None, 4, None)
    far = choose_cores(rank(0, 8), chosen(0, 8, node()), node(), cpus(range(20, 24)))
    assert far.cpus is None
    assert far.unfulfilled == "CPUs 20-23 are all outside NUMA domain 0, where its GPU is"


def test_too_few_near_cores_leave_the_ranks_as_they_are() -> None:
    few = cpus((0, 1, 16, 17), here=4)
    given = choose_cores(rank(0, 4), chosen(0, 4, node()), node(), few)
    assert (given.cpus, given.threads) == (None, 1)
    assert given.unfulfilled == "2 cores in NUMA domain 0 for 4 GPUs"


def test_without_a_known_domain_the_ranks_share_the_threads() -> None:
    nowhere = tuple(gpu._replace(numa=None) for gpu in node())
    given = choose_cores(rank(0, 8), chosen(0, 8, nowhere), nowhere, cpus())
    assert (given.cpus, given.threads) == (None, 4)
    assert given.unfulfilled == "its GPU's NUMA domain is not known"


@given(st.sets(st.integers(0, 31), min_size=1), st.integers(1, 8), st.booleans())
def test_bound_cores_are_given_near_and_disjoint_with_hyperthreads_together(
    mine: set[int], size: int, isolated: bool
) -> None:
    siblings = {c: (c, (c + 8) % 16 + 16 * (c // 16)) for c in range(32)}
    seen = Cpus(tuple(sorted(mine)), len(mine), DOMAINS, siblings)
    sets = []
    for r in range(size):
        environ = {"CUDA_VISIBLE_DEVICES": str(r)} if isolated else {}
        choice = choose_gpu(rank(r, size), node(), environ)
        found = choose_cores(rank(r, size), choice, node(), seen)
        assert found.threads >= 1
        if found.cpus is None:
            continue
        assert choice.gpu is not None and choice.gpu.numa is not None
        assert set(found.cpus) <= mine & set(DOMAINS[choice.gpu.numa])
        for cpu in found.cpus:
            assert set(siblings[cpu]) & mine <= set(found.cpus)
        sets.append(set(found.cpus))
    assert all(not a & b for a, b in combinations(sets, 2))


@given(st.integers(0, 40), st.integers(1, 9))
def test_shares_cover_all_cores_evenly(cores: int, count: int) -> None:
    parts = [share([(c,) for c in range(cores)], i, count) for i in range(count)]
    assert [c for part in parts for (c,) in part] == list(range(cores))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_hyperthreads_count_as_one_core() -> None:
    assert physical_cores((0, 1, 4, 5), {0: (0, 4), 4: (0, 4)}) == [(0, 4), (1,), (5,)]


NICS = (
    NearNic("mlx5_0", (1,), "PIX", near=True),
    NearNic("mlx5_1", (1, 2), "SYS", near=False),
    NearNic("mlx5_10", (1,), "PIX", near=True),
)


def test_the_nearest_nics_are_named_exactly_with_their_ports() -> None:
    assert choose_nics({}, 0, NICS, gpu="0000:10:00.0").value == "=mlx5_0:1,mlx5_10:1"


def test_a_nic_that_is_set_stays() -> None:
    found = choose_nics({"NCCL_IB_HCA": "^mlx5_3"}, 0, NICS, gpu=None)
    assert (found.value, found.why) == (None, "NCCL_IB_HCA=^mlx5_3 as given")


def test_listed_nics_come_before_distances() -> None:
    listed = {"CLUSTERLAB_NICS": "mlx5_4, mlx5_5"}
    assert choose_nics(listed, 1, NICS, gpu=None).value == "=mlx5_5"
    with pytest.raises(UsageError, match="names 2 NICs, local rank 2 has none"):
        choose_nics(listed, 2, NICS, gpu=None)


@pytest.mark.parametrize(
    ("nics", "gpu", "said"),
    [
        ((), "0000:10:00.0", "no RDMA device here"),
        (NICS[1:2], None, "its GPU is not known"),
        (NICS[1:2], "0000:10:00.0", "no RDMA device that is up has a known path"),
    ],
)
def test_why_no_nic_can_be_named_is_said(
    nics: tuple[NearNic, ...], gpu: str | None, said: str
) -> None:
    found = choose_nics({}, 0, nics, gpu=gpu)
    assert found.value is None
    assert said in (found.unfulfilled or "")
