"""Whatever the environment says, the doctor gives findings or one clear error, never a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.outcome import identity_finding
from clusterlab.binding.probe import Machine, join_parts, probe_here
from clusterlab.binding.table import WIDTH, record_lines
from clusterlab.core.errors import ClusterlabError
from clusterlab.launch.seat import take_seat
from tests.binding.machines import machine, uuid
from tests.binding.pages import too_wide

NAMES = (
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    "CUDA_DEVICE_ORDER", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
    "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID",
    "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
    "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE",
    "SLURM_CPU_BIND", "SLURMD_TRES_BIND", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE",
    "MASTER_PORT", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS",
    "NVIDIA_VISIBLE_DEVICES", "APPTAINER_CONTAINER", "container",
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "1", "2", "0,1", "0,0", "-1", "0-3", "2(x2)", "4294967295", "n[0-1", "n[0-1]",
         "=mlx5_0", "^lo", "gpu:map_gpu:1,0", "mask_cpu:0x1", uuid(0), uuid(1)[:9], "MIG-x", "9" * 30]
    ),
    st.text(st.characters(exclude_characters="\0"), max_size=20),
)  # fmt: skip
STEP = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2",
}  # fmt: skip
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
}  # fmt: skip
LAUNCHED = st.sampled_from([STEP, TORCHRUN, STEP | TORCHRUN])
ENVIRONS = st.builds(
    lambda launched, more: launched | more,
    LAUNCHED,
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12),
)


@pytest.fixture(scope="module")
def here() -> Machine:
    return machine(Path(tempfile.mkdtemp()))


@given(environ=ENVIRONS)
@settings(max_examples=300, deadline=None)
def test_any_environment_gives_findings_or_a_clear_error(
    here: Machine, environ: dict[str, str]
) -> None:
    try:
        seat = take_seat(environ | {"CLUSTERLAB_PMIX": "off"}, timeout_s=1)
        if seat is None:
            return
        part = probe_here(seat.arrival.identity, environ, program=seat.program, machine=here)
    except ClusterlabError as error:
        assert str(error)
        return
    record = join_parts([part], range(1, min(seat.arrival.identity.world_size, 3)))
    findings = diagnose(record)
    if seat.conflict:
        findings.append(identity_finding(seat.conflict, "n0"))
    assert all(f.fix and f.evidence for f in findings)
    assert too_wide(record_lines(record, findings, environment=True), WIDTH) == []
