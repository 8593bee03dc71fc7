"""The words of a diagnosis: every code, its group, its usual severity and what it means. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.findings import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of binding problem. A finding's severity may differ: it depends on what it did there."""

    name: str
    group: str
    severity: Severity
    meaning: str


_TABLE = (
    (
        "CVD_LOCAL_RANK_MISMATCH",
        "visibility",
        "fatal",
        "selected ordinal >= number of devices this process can see",
    ),
    (
        "CVD_DUPLICATE_ENTRY",
        "visibility",
        "fatal",
        "a device is listed twice; the driver then exposes none",
    ),
    (
        "CVD_TRUNCATED",
        "visibility",
        "fatal",
        "-1 / out-of-range / unknown id in the middle hides everything after it",
    ),
    ("CVD_EMPTY", "visibility", "fatal", "mask is empty or NoDevFiles: zero devices"),
    (
        "CVD_UNSET",
        "visibility",
        "warning",
        "mask unset in a shared or bound step: every GPU (or the wrong ones) visible",
    ),
    (
        "CVD_SYNTAX",
        "visibility",
        "fatal",
        "range, semicolon, quotes, mixed ids: the driver reads something other than meant",
    ),
    (
        "CVD_UUID_UNPARSED",
        "visibility",
        "fatal",
        "mask holds UUIDs (GPU-/MIG-) and the software int()s them or counts 0",
    ),
    (
        "CVD_STALE_INDEX_SPACE",
        "visibility",
        "fatal",
        "index of another numbering (host, job) used where a cgroup or container renumbered the devices",
    ),
    (
        "CVD_SET_AFTER_INIT",
        "visibility",
        "fatal",
        "mask changed after CUDA was initialised; ignored",
    ),
    (
        "MIG_LIMIT",
        "visibility",
        "fatal",
        "one process enumerates one MIG instance; slices of one parent collide in NCCL",
    ),
    (
        "DEVICE_ORDER_MISMATCH",
        "visibility",
        "error",
        "FASTEST_FIRST numbering differs from PCI/nvidia-smi numbering",
    ),
    (
        "NVML_INDEX_MISMATCH",
        "visibility",
        "error",
        "logical ordinal used as NVML/minor index (monitoring, affinity)",
    ),
    (
        "VENDOR_MASK_CONFLICT",
        "visibility",
        "fatal",
        "stacked or contradictory CUDA/ROCR/HIP/ZE masks",
    ),
    (
        "GPU_SHARED_BY_RANKS",
        "mapping",
        "fatal",
        "two ranks of one communicator on one physical GPU",
    ),
    (
        "DEVICE_NOT_SET",
        "mapping",
        "warning",
        "rank never selected its device: context or work lands on ordinal 0",
    ),
    (
        "RANK_MODULO_MISMAP",
        "mapping",
        "error",
        "device = global_rank % n where ranks/node is not n or uneven",
    ),
    ("GPU_IDLE", "mapping", "warning", "allocated GPUs no rank drives"),
    (
        "GPU_BIND_OUT_OF_ALLOC",
        "mapping",
        "fatal",
        "map_gpu/mask_gpu ids outside the allocation: Slurm silently binds to its first GPU",
    ),
    (
        "GPU_BIND_CLOSEST_MULTI",
        "mapping",
        "error",
        "closest gives >1 GPU per task; ordinal 0 is the same GPU for several tasks",
    ),
    (
        "IPC_ISOLATED",
        "mapping",
        "error",
        "per-task device isolation: peers cannot open each other's memory (P2P/IPC off or failing)",
    ),
    (
        "STEP_GPUS_UNRELIABLE",
        "mapping",
        "info",
        "SLURM_STEP_GPUS is not the task's GPU (bound + ConstrainDevices)",
    ),
    ("RANK_SINGLETON", "identity", "fatal", "every process believes it is rank 0 of 1"),
    ("PMI_MISMATCH", "identity", "fatal", "--mpi type does not match what the MPI library speaks"),
    (
        "PMIX_COMPONENT",
        "identity",
        "fatal",
        "PMIx version/component (munge, gds, lib) missing or different between server and client",
    ),
    (
        "LAUNCHER_NESTED",
        "identity",
        "fatal",
        "a per-GPU spawner ran inside every scheduler task: N*N processes",
    ),
    (
        "IDENTITY_CONFLICT",
        "identity",
        "error",
        "launchers disagree on local rank/rank (LOCAL_RANK, SLURM_LOCALID, OMPI_..)",
    ),
    (
        "STALE_ENV",
        "identity",
        "error",
        "rank/scheduler variables inherited from an outer shell or step",
    ),
    ("WORLD_SIZE_MISMATCH", "identity", "fatal", "declared world size != processes that exist"),
    ("RANK_DUPLICATE", "identity", "fatal", "same global rank on several processes"),
    (
        "LOCAL_RANK_UNDETECTED",
        "identity",
        "error",
        "software knows none of the local-rank variables this launcher sets",
    ),
    ("SLURM_VAR_FORMAT", "identity", "fatal", "compressed counts like 8(x2),4 parsed as int"),
    (
        "NODELIST_PARSE",
        "identity",
        "fatal",
        "hand-made hostlist parser produced a wrong first host",
    ),
    ("SCOPE_MIX", "identity", "fatal", "job-, step- and het-group-scoped variables mixed"),
    ("UNEVEN_TASKS", "identity", "error", "tasks per node differ; code assumes ntasks/nnodes"),
    (
        "RANK_PLACEMENT",
        "identity",
        "warning",
        "rank order not block per node, or rank 0 not where expected",
    ),
    (
        "HOSTNAME_COLLISION",
        "identity",
        "fatal",
        "two machines look the same (short name, cloned boot_id, container)",
    ),
    (
        "MASTER_ADDR_WRONG",
        "rendezvous",
        "fatal",
        "address differs between ranks, is loopback, wrong family or unreachable",
    ),
    (
        "MASTER_PORT_COLLISION",
        "rendezvous",
        "fatal",
        "port in use, or two jobs derive the same one",
    ),
    (
        "IFACE_WRONG",
        "rendezvous",
        "fatal",
        "socket interface missing, wrong, or given in another library's syntax",
    ),
    ("CPU_SINGLE_CORE", "cpu", "error", "rank confined to one core / several ranks on one core"),
    ("CPU_NUMA_REMOTE", "cpu", "warning", "rank's cores are on another NUMA node than its GPU"),
    ("CPU_MASK_INHERITED", "cpu", "error", "CPU mask leaked from the submitting shell/step"),
    (
        "OMP_THREADS",
        "cpu",
        "warning",
        "OMP_NUM_THREADS does not fit the mask (1 by default, or all cores per rank)",
    ),
    ("NUMA_UNKNOWN", "cpu", "info", "numa_node=-1 (VM): affinity cannot be decided"),
    ("NIC_FAR", "nic", "warning", "rank's traffic leaves through a NIC not nearest to its GPU"),
    (
        "NIC_FILTER_PREFIX",
        "nic",
        "error",
        "NCCL_IB_HCA/IFNAME are prefixes: more devices matched than meant",
    ),
    ("NIC_FILTER_DIVERGENT", "nic", "error", "NIC filter differs between ranks of a node"),
    ("NIC_RAIL_MISMATCH", "nic", "warning", "same-index GPUs use NICs on different rails/subnets"),
    (
        "CONTAINER_ENV",
        "container",
        "error",
        "container runtime dropped, kept stale or injected rank/PMI/CUDA variables",
    ),
)

# What is not a binding problem itself but has to be said: about the record, the job or the log.
_BESIDE = (
    ("RANK_MISSING", "identity", "fatal", "a rank of the job did not arrive"),
    ("RECORD_CONTRADICTION", "record", "warning", "the record says what cannot be true at once"),
    ("LAUNCH_FAILED", "identity", "fatal", "the launcher refused to start the tasks, and said why"),
    ("COMMUNICATION_FAILED", "rendezvous", "error", "a library lost or never reached its peers"),
)

CODES = {
    name: Code(name, group, Severity(severity), meaning)
    for name, group, severity, meaning in (*_TABLE, *_BESIDE)
}

TAXONOMY = tuple(name for name, _, _, _ in _TABLE)
