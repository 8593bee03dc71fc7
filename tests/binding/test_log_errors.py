"""Error logs alone: what texts of CUDA, NCCL, gloo, Slurm, MPI and torch mean, and of which ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.binding.diagnose import CODES
from clusterlab.binding.log_errors import classify_lines, classify_log, ranks_of
from clusterlab.binding.log_patterns import PATTERNS
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Severity

TEXTS = [
    ("RuntimeError: CUDA error: invalid device ordinal", "CVD_LOCAL_RANK_MISMATCH"),
    ("failed call to cuInit: CUDA_ERROR_INVALID_DEVICE", "CVD_LOCAL_RANK_MISMATCH"),
    ("RuntimeError: HIP error: invalid device ordinal", "CVD_LOCAL_RANK_MISMATCH"),
    ("CUDA driver initialization failed: no CUDA-capable device is detected", "CVD_EMPTY"),
    (
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "GPU_SHARED_BY_RANKS",
    ),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "RANK_MISSING"),
    ("srun: error: n1: task 5: Out Of Memory", "RANK_MISSING"),
    (
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***",
        "RANK_MISSING",
    ),
    ("RuntimeError: No HIP GPUs are available", "CVD_EMPTY"),
    (
        "NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
        "GPU_SHARED_BY_RANKS",
    ),
    ("ncclInvalidUsage: Duplicate GPU detected", "GPU_SHARED_BY_RANKS"),
    (
        "using GPU 3 to perform barrier as devices used by this process are currently unknown",
        "DEVICE_NOT_SET",
    ),
    ("ValueError: invalid literal for int() with base 10: 'GPU-8d3c'", "CVD_UUID_UNPARSED"),
    ("ValueError: invalid literal for int() with base 10: 'MIG-8d3c'", "CVD_UUID_UNPARSED"),
    ("ValueError: Unsupported nproc_per_node value: 4(x2)", "SLURM_VAR_FORMAT"),
    ("ValueError: invalid literal for int() with base 10: '8(x2),4'", "SLURM_VAR_FORMAT"),
    (
        "slurmstepd: error: Bind request gpu:map_gpu:7 does not specify any devices within the allocation",
        "GPU_BIND_OUT_OF_ALLOC",
    ),
    ("(GTL DEBUG: 1) cuIpcOpenMemHandle: invalid argument", "IPC_ISOLATED"),
    ("NCCL INFO Could not enable P2P between dev 0(=41000) and dev 0(=3000)", "IPC_ISOLATED"),
    ("mpi/pmix_v5: init: can not load PMIx library", "PMIX_COMPONENT"),
    ("srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types", "PMIX_COMPONENT"),
    ("No PMIx server was reachable, but a PMI1/2 was detected.", "PMI_MISMATCH"),
    ('The application appears to have been direct launched using "srun",', "PMI_MISMATCH"),
    ("Fatal error in PMPI_Init: PMI2_Init failed", "PMI_MISMATCH"),
    ("OPAL ERROR: Unreachable in file ext3x_client.c at line 111", "PMI_MISMATCH"),
    ("unable to detect local MPI rank. Falling back to the first GPU", "LOCAL_RANK_UNDETECTED"),
    ("environment variable RANK expected, but not set", "LOCAL_RANK_UNDETECTED"),
    ("MPI world size 16 does not match torch world size 8", "WORLD_SIZE_MISMATCH"),
    ("The `srun` command is available on your system but is not used.", "SCOPE_MIX"),
    ("(gai error: -2 - Name or service not known)", "MASTER_ADDR_WRONG"),
    ("[enforce fail at address.cc] ss1.ss_family == ss2.ss_family. 2 vs 10", "MASTER_ADDR_WRONG"),
    ("Gloo connectFullMesh failed with [..] remote=[127.0.0.1]:4711", "MASTER_ADDR_WRONG"),
    ("Gloo connectFullMesh failed with timeout, remote=[10.1.0.1]:4711", "COMMUNICATION_FAILED"),
    (
        "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)",
        "MASTER_PORT_COLLISION",
    ),
    (
        "DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.",
        "MASTER_ADDR_WRONG",
    ),
    ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", "MASTER_ADDR_WRONG"),
    ("NCCL WARN Bootstrap : no socket interface found", "IFACE_WRONG"),
    ("Unable to find address for: ib0", "IFACE_WRONG"),
    (
        "socketStartConnect: Connect to 10.0.0.3<4711> failed : Connection refused",
        "COMMUNICATION_FAILED",
    ),
    ("socketStartConnect: Connect to 172.17.0.1<4711> failed : Connection refused", "IFACE_WRONG"),
    ("NCCL error: unhandled system error, NCCL version 2.21.5", "COMMUNICATION_FAILED"),
    ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)", "COMMUNICATION_FAILED"),
    (
        "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x1.",
        "CPU_MASK_INHERITED",
    ),
    (
        "srun: error: Task launch for StepId=94.0 failed on node n0: Unable to satisfy cpu bind request",
        "CPU_MASK_INHERITED",
    ),
    (
        "srun: error: Task launch for StepId=9.0 failed on node n0: Communication connection failure",
        "LAUNCH_FAILED",
    ),
    (
        "srun: error: Unable to allocate resources: Requested node configuration is not available",
        "LAUNCH_FAILED",
    ),
    (
        "RuntimeError: MUJOCO_EGL_DEVICE_ID must be an integer between 0 and 0 (inclusive), got 1.",
        "CVD_STALE_INDEX_SPACE",
    ),
    ("ImportError: Cannot initialize a EGL device display.", "CONTAINER_ENV"),
    ("unhandled cuda error (P2P/IPC between different hosts)", "HOSTNAME_COLLISION"),
]

HARMLESS = [
    "Epoch 3: loss 0.12, world_size 8, rank 0",
    "NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "NCCL INFO comm 0x55 rank 1 nranks 2 cudaDev 1 busId 43000 - Init COMPLETE",
    "rank 0 of 8 says hello",
    "CUDA_VISIBLE_DEVICES=0,1,2,3",
    "srun: job 204 has been allocated resources",
]


@pytest.mark.parametrize(("text", "code"), TEXTS, ids=[t[:40] for t, _ in TEXTS])
def test_each_text_has_its_code_a_fix_and_its_line_as_evidence(text: str, code: str) -> None:
    (finding,) = classify_lines(["something before", f"[rank3]: {text}"])
    assert finding.code == code
    assert finding.fix
    assert finding.evidence[0].startswith("line 2: ") and text[:30] in finding.evidence[0]
    assert 3 in finding.ranks


def test_a_healthy_log_is_silent() -> None:
    assert classify_lines(HARMLESS) == []


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("[rank3]: Traceback", {3}),
        ("[default12]:Traceback", {12}),
        ("[1,7]<stderr>: boom", {7}),
        (" 5: boom", {5}),
        ("[r4 n0 0000:1b:00.0] boom", {4}),
        ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000", {0, 1}),
        ("boom", set()),
    ],
)
def test_ranks_by_the_tags_of_launchers(line: str, ranks: set[int]) -> None:
    assert ranks_of(line) == ranks


def test_the_rank_that_died_is_the_cause_of_what_the_others_noticed() -> None:
    findings = classify_lines(
        [
            "[rank0]: ncclRemoteError: A call failed possibly due to a network error",
            "[rank1]: CUDA error: invalid device ordinal",
        ]
    )
    assert [(f.code, f.caused_by) for f in findings] == [
        ("CVD_LOCAL_RANK_MISMATCH", None),
        ("COMMUNICATION_FAILED", "CVD_LOCAL_RANK_MISMATCH"),
    ]


def test_one_process_that_is_alone_is_fine_and_several_are_singletons() -> None:
    assert classify_lines(["Hello from rank 0 of 1"]) == []
    (finding,) = classify_lines(["Hello from rank 0 of 1"] * 4)
    assert finding.code == "RANK_SINGLETON"
    assert "--mpi=pmix" in finding.fix


def test_many_equal_lines_are_counted_not_listed() -> None:
    (finding,) = classify_lines(["EADDRINUSE"] * 1000)
    assert len(finding.evidence) == 4 and "1000 such lines" in finding.evidence[0]


def test_long_lines_and_strange_bytes_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1_000_000 + b"\n\xff\xfe EADDRINUSE \x1b[31m\n")
    (finding,) = classify_log(log)
    assert finding.code == "MASTER_PORT_COLLISION"


@pytest.mark.parametrize("kind", ["missing", "folder", "binary"])
def test_what_is_no_log_is_refused_with_its_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\x7fELF\0\0")
    with pytest.raises(UsageError, match=kind):
        classify_log(path)


def test_every_pattern_has_a_known_code_a_fix_a_source_and_a_text_that_it_finds() -> None:
    names = [p.name for p in PATTERNS]
    assert len(set(names)) == len(names)
    unfound = {p.name for p in PATTERNS}
    samples = [t for t, _ in TEXTS] + [
        "Hello from rank 0 of 1",
        "A requested component was not found",
        "ncclBuildRings failed",
        "You set `--ntasks=4` in your SLURM bash script, but this variable is not supported",
        "Invalid job id specified",
        "CUDA_VISIBLE_DEVICES was changed, CUDA has already been initialized",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
    ]
    for pattern in PATTERNS:
        assert pattern.code in CODES and pattern.fix and pattern.source
        if any(pattern.regex.search(text) for text in samples):
            unfound.discard(pattern.name)
    assert not unfound


def test_a_note_that_is_no_fault_stays_information() -> None:
    (finding,) = classify_lines(
        ["Setting OMP_NUM_THREADS environment variable for each process to be 1"]
    )
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize("lead", ["", "node7: ", "2026-11-30 10:00:00 "])
def test_torchs_own_mark_names_the_rank_behind_what_stands_first(lead: str) -> None:
    assert ranks_of(f"{lead}[rank5]: RuntimeError: CUDA error") == {5}
