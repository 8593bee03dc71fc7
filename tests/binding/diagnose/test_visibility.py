"""Rules about masks and what ranks see: each with a twin that must stay silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.binding.records import Container, GpuRecord, MigSlice, NodeRecord, RankRecord, Slurm
from clusterlab.core.findings import Severity
from tests.binding.diagnose.jobs import codes, job, loud, node, own_gpu, slurm_env, torch_env

GPUS = node("n0").gpus
CVD = "CUDA_VISIBLE_DEVICES"


def one(mask: str, visible: tuple[str, ...] | None = None, **fields: object) -> dict[str, object]:
    record = job(
        lambda rank, local: {CVD: mask},
        per_node=1,
        change=lambda r: replace(r, visible=visible, selected_device=None, cpus=None, **fields),  # type: ignore[arg-type]
    )
    return dict(codes(record))


def test_a_healthy_job_is_silent() -> None:
    assert loud(job(torch_env)) == []


def test_an_ordinal_beyond_what_is_visible_is_named_with_the_line_for_this_launcher() -> None:
    record = job(
        slurm_env,
        change=lambda r: replace(own_gpu(r), selected_device=r.local_rank),
        launcher="srun -n4 --gpus-per-task=1 python",
        slurm=Slurm(constrain_devices=True, version="22.05.8"),
    )
    finding = codes(record)["CVD_LOCAL_RANK_MISMATCH"]
    assert finding.ranks == (1, 2, 3)
    assert "--gpus-per-node=4" in finding.fix and "--gpu-bind=none" not in finding.fix
    newer = replace(record, slurm=Slurm(constrain_devices=True, version="23.11.1"))
    assert "--gpu-bind=none" in codes(newer)["CVD_LOCAL_RANK_MISMATCH"].fix


@pytest.mark.parametrize(
    "mask", ["0;1", "'0,1'", '"0"', "0-3", "cuda:0", "[0,1]", "0 1 2 3", "gpu1", "all"]
)
def test_masks_outside_the_grammar_are_syntax(mask: str) -> None:
    assert "CVD_SYNTAX" in one(mask)


@pytest.mark.parametrize(
    "mask", ["0", "0,1", "3,2,1,0", "0, 1", "1 ", "0,", "01", f"{GPUS[1].uuid}"]
)
def test_masks_the_driver_reads_as_meant_are_silent(mask: str) -> None:
    assert one(mask) == {}


def test_kinds_mixed_in_one_mask_are_syntax() -> None:
    assert "CVD_SYNTAX" in one(f"0,{GPUS[1].uuid}")


def test_a_mask_in_words_of_its_own_gets_the_plain_list_as_fix() -> None:
    assert one("0-3")["CVD_SYNTAX"].fix == f"export {CVD}=0,1,2,3"  # type: ignore[attr-defined]


@pytest.mark.parametrize("mask", ["0,0", "1,2,1", f"{GPUS[0].uuid},{(GPUS[0].uuid or '')[:12]}"])
def test_a_device_named_twice_leaves_none(mask: str) -> None:
    assert "CVD_DUPLICATE_ENTRY" in one(mask, ())


@pytest.mark.parametrize(
    "mask", ["0,-1,2", "0,1,9,2", f"{GPUS[0].uuid},GPU-deadbeef,{GPUS[1].uuid}"]
)
def test_what_stands_after_an_unknown_id_is_hidden(mask: str) -> None:
    assert "CVD_TRUNCATED" in one(mask)


@pytest.mark.parametrize("mask", ["", "-1", "NoDevFiles", "none", "9"])
def test_masks_that_leave_nothing(mask: str) -> None:
    assert "CVD_EMPTY" in one(mask, ())


def test_the_jobs_index_inside_a_cgroup_that_renumbered() -> None:
    found = one("2", (), openable=(GPUS[2].pci,))
    assert found["CVD_EMPTY"].caused_by == "CVD_STALE_INDEX_SPACE"  # type: ignore[attr-defined]
    assert one("0", (GPUS[2].pci,), openable=(GPUS[2].pci,)) == {}


def test_the_hosts_index_inside_a_container() -> None:
    record = job(
        lambda rank, local: {CVD: "3", "NVIDIA_VISIBLE_DEVICES": "3"},
        per_node=1,
        change=lambda r: replace(
            r,
            visible=(),
            selected_device=None,
            container=Container("docker", (3,)),
            error="no CUDA GPUs",
        ),
    )
    assert {"CVD_STALE_INDEX_SPACE", "CONTAINER_ENV"} <= set(codes(record))


def test_a_mask_that_leads_to_another_jobs_gpus() -> None:
    theirs, mine = (GPUS[0].pci, GPUS[1].pci), (GPUS[2].pci, GPUS[3].pci)
    bad = job(
        lambda rank, local: {CVD: str(local)},
        per_node=2,
        change=lambda r: replace(own_gpu(r), allocated=mine),
    )
    assert "CVD_STALE_INDEX_SPACE" in codes(bad)
    good = job(
        lambda rank, local: {CVD: str(local)},
        per_node=2,
        change=lambda r: replace(own_gpu(r), allocated=theirs),
    )
    assert loud(good) == []


def test_a_mask_changed_after_init_counts_only_where_cuda_still_sees_the_old_one() -> None:
    everything = tuple(g.pci for g in GPUS)
    late = one("1", everything, env_at_exec={CVD: None})
    assert "CVD_SET_AFTER_INIT" in late
    assert one("1", (GPUS[1].pci,), env_at_exec={CVD: None}) == {}


def test_no_mask_in_a_job_that_owns_part_of_the_node() -> None:
    part = job(lambda r, i: slurm_env(r, i, SLURM_JOB_GPUS="0,1"), per_node=2)
    assert "CVD_UNSET" in codes(part)
    whole = job(lambda r, i: slurm_env(r, i, SLURM_JOB_GPUS="0,1,2,3"))
    assert loud(whole) == []


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: invalid literal for int() with base 10: 'GPU-x'",
        f"KeyError: '{GPUS[0].uuid}'",
        "torch.cuda.device_count() == 0",
    ],
)
def test_uuids_taken_for_numbers(error: str) -> None:
    uuid = GPUS[0].uuid or ""
    assert "CVD_UUID_UNPARSED" in one(uuid, (GPUS[0].pci,), error=error)
    assert one(uuid, (GPUS[0].pci,)) == {}


def mig_node(*parents: int) -> NodeRecord:
    slices = tuple(
        MigSlice(f"MIG-{i:08d}-aaaa-bbbb-cccc-dddddddddddd", p) for i, p in enumerate(parents)
    )
    return node("n0", mig=slices)


def test_ranks_on_instances_of_one_gpu_collide_and_those_of_different_gpus_do_not() -> None:
    for parents, expected in (((0, 0), True), ((0, 1), False)):
        known = mig_node(*parents)
        record = job(
            lambda rank, local, known=known: torch_env(
                rank, local, size=2, **{CVD: known.mig[local].uuid}
            ),
            per_node=2,
            nodes={"n0": known},
            change=lambda r, known=known: replace(
                r, visible=(known.mig[r.rank].uuid,), selected_device=0, cpus=None
            ),
        )
        assert ("MIG_LIMIT" in codes(record)) is expected


def test_fastest_first_matters_only_where_models_differ_and_the_order_is_not_pci() -> None:
    mixed = node("n0", models=("P100", "A5000"), fastest_first=(1, 0))
    for order, expected in ((None, True), ("PCI_BUS_ID", False)):
        env = {CVD: "0"} | ({"CUDA_DEVICE_ORDER": order} if order else {})
        got = mixed.gpus[0 if order else 1].pci
        record = job(
            lambda rank, local, env=env: env,
            per_node=1,
            nodes={"n0": mixed},
            change=lambda r, got=got: replace(r, visible=(got,), selected_device=0, cpus=None),
        )
        assert ("DEVICE_ORDER_MISMATCH" in codes(record)) is expected


def test_a_monitor_that_watches_another_gpu() -> None:
    wrong = job(per_node=1, monitor_index=2)
    assert "NVML_INDEX_MISMATCH" in codes(wrong)
    assert loud(job(per_node=1, monitor_index=0)) == []


AMD = NodeRecord(
    "n0",
    tuple(GpuRecord(i, f"0000:c{i}:00.0", f"GPU-{i:016x}", 0, "MI300X") for i in range(4)),
    {0: frozenset(range(32))},
)


def amd(env: dict[str, str], visible: int = 1) -> list[str]:
    gpus = tuple(g.pci for g in AMD.gpus[:visible])
    record = job(
        lambda rank, local: env,
        per_node=1,
        nodes={"n0": AMD},
        change=lambda r: replace(r, visible=gpus, selected_device=0),
    )
    return loud(record)


def test_stacked_rocm_masks() -> None:
    assert amd({"ROCR_VISIBLE_DEVICES": "2"}) == []
    assert amd({"ROCR_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "0"}) == []
    assert (
        amd({"ROCR_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "2"}, 0)[0]
        == "VENDOR_MASK_CONFLICT"
    )
    assert amd({"ROCR_VISIBLE_DEVICES": "2,3", CVD: "2,3"}, 0)[0] == "VENDOR_MASK_CONFLICT"
    assert amd({"HIP_VISIBLE_DEVICES": "1", CVD: "0"}) == ["VENDOR_MASK_CONFLICT"]


def test_other_vendors_masks_beside_cudas() -> None:
    record = job(lambda r, i: {CVD: "0,1,2,3", "ROCR_VISIBLE_DEVICES": "0,1,2,3"})
    finding = codes(record)["VENDOR_MASK_CONFLICT"]
    assert finding.severity is Severity.WARNING and "nvidia_gpu_env" in finding.fix


def test_a_oneapi_selector_that_counts_the_nodes_devices() -> None:
    gpus = tuple(GpuRecord(i, f"0000:{i}8:00.0", None, 0, "Max-1550", 2) for i in range(4))
    known = NodeRecord("n0", gpus, {0: frozenset(range(32))})
    for selector, expected in (("level_zero:3", True), ("level_zero:0", False)):
        record = job(
            lambda r, i, s=selector: {
                "ZE_AFFINITY_MASK": "3",
                "ONEAPI_DEVICE_SELECTOR": s,
                "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE",
            },
            per_node=1,
            nodes={"n0": known},
            change=lambda r: replace(r, visible=(gpus[3].pci,), selected_device=0),
        )
        assert ("VENDOR_MASK_CONFLICT" in codes(record)) is expected


def test_ranks_without_any_node_in_the_record_are_judged_by_their_masks() -> None:
    record = job(lambda r, i: {CVD: "0,0"}, per_node=1)
    bare = replace(
        record, nodes={}, ranks=tuple(RankRecord(r.host, r.rank, 0, r.env) for r in record.ranks)
    )
    assert set(codes(bare)) == {"CVD_DUPLICATE_ENTRY"}
