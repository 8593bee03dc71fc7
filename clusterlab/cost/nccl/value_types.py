"""What kind of value each variable of NCCL takes, also of those that no prediction counts.

NCCL reads numbers by strtoll (``ncclLoadParam`` in ``src/misc/param.cc``) and takes what it cannot read for
0, for the digits in front, or for its default; words that it does not know it leaves out. Both are
errors here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean

_NUMBER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)")
_MOST = 2**63 - 1


def whole_number(variable: str, text: str) -> int:
    """``text`` as C's strtoll reads it: decimal, 0x… or 0… (octal), within 64 bits. Raises UsageError."""
    found = _NUMBER.fullmatch(text)
    value = None if found is None else _in_c(text)
    if value is None:
        raise UsageError(
            f"{text!r}", where=variable, expected="a whole number", fix=_as_nccl_reads(text)
        )
    return value


def _in_c(text: str) -> int | None:
    """None for what 64 bits do not hold or the base does not have (08)."""
    digits = text.lstrip("+-")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits.startswith("0") else 10
    try:
        value = int(text, base)
    except ValueError:
        return None
    return value if -_MOST - 1 <= value <= _MOST else None


def _as_nccl_reads(text: str) -> str:
    read = re.match(r"[+-]?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    value = _in_c(read[0]) if read is not None else 0
    return f"NCCL would take {'its default' if value is None else value} and go on"


@dataclass(frozen=True, slots=True)
class _Words:
    """Words in capitals. ``between``: what stands between several; ``negated``: ``^`` may stand before them;
    ``other``: what else is taken, as a pattern, and in words.
    """

    known: tuple[str, ...]
    any_case: bool = True
    between: str | None = None
    negated: bool = False
    other: tuple[str, str] | None = None

    def check(self, variable: str, text: str) -> None:
        """Raises UsageError for a word that is not known."""
        if self.other is not None and re.fullmatch(self.other[0], text, re.IGNORECASE):
            return
        rest = text.removeprefix("^") if self.negated else text
        words = [] if self.between is None else [w for w in rest.split(self.between) if w]
        for word in words or [rest]:
            if (word.upper() if self.any_case else word) not in self.known:
                more = "" if self.other is None else f" or {self.other[1]}"
                several = f", several with {self.between}" if self.between is not None else ""
                raise UsageError(
                    f"{word!r}" if word == text else f"{word!r} in {text!r}",
                    where=variable,
                    expected="one of " + ", ".join(self.known) + more + several,
                    fix=did_you_mean(word, self.known),
                )


_LEVELS = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")
_FAMILIES = _Words(("AF_INET", "AF_INET6"), any_case=False)
_SUBSYSTEMS = (
    *("INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL"),
    *("PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL"),
)
WORDS: Mapping[str, _Words] = {
    "NCCL_DEBUG": _Words(_LEVELS),
    "NCCL_DEBUG_SUBSYS": _Words(_SUBSYSTEMS, between=",", negated=True),
    "NCCL_DEBUG_TIMESTAMP_LEVELS": _Words((*_LEVELS, "ALL"), between=",", negated=True),
    "NCCL_SOCKET_FAMILY": _FAMILIES,
    "NCCL_IB_ADDR_FAMILY": _FAMILIES,
    "NCCL_LAUNCH_MODE": _Words(("PARALLEL", "GROUP")),
    "NCCL_CHECK_MODE": _Words(("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL")),
    "NCCL_CTA_POLICY": _Words(
        ("DEFAULT", "EFFICIENCY", "ZERO"), between="|", other=("[0-2]", "0 to 2")
    ),
    "NCCL_NETDEVS_POLICY": _Words(("AUTO", "ALL"), other=("MAX:[1-9][0-9]{0,8}", "MAX:N")),
    "NCCL_NET_MERGE_POLICY": _Words(("ALL", "RAIL")),
    "NCCL_NET_MERGE_LEVEL": _Words(
        ("LOC", "PORT", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"), any_case=False
    ),
}
"""Variables of words, from NCCL 2.30.7 (``ncclGetEnv``, ``DEFINE_NCCL_PARAM`` in ``src/``)."""

_NCCL_NUMBERS = """
    AGG_CHANNEL_SIZE ALLGATHERV_ENABLE ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CGA_CLUSTER_SIZE
    CHECK_POINTERS CHUNK_SIZE COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_BLOCKING
    COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONNECT_ROUND_MAX_PEERS
    CREATE_THREAD_CONTEXT CROSS_NIC CUMEM_ENABLE CUMEM_HOST_ENABLE DEV_API_JIT
    DISABLE_MEM_MANAGER DMABUF_ENABLE ELASTIC_BUFFER_REGISTER ENABLE_VERSION_CHECK
    GDAKI_USE_RELIABLE_DB GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE
    GDRCOPY_SYNC_ENABLE GDR_FLUSH_DISABLE GIN_COUNTER_POOL_SIZE GIN_ENABLE GIN_ERROR_QUERY_SEC
    GIN_EXCLUSIVE_CONTEXTS GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC
    GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_TC GIN_NCONNECTIONS GIN_NCONTEXTS
    GIN_PLUGIN_REF_COUNT GIN_PROXY_QUEUE_SIZE GIN_SIGNAL_POOL_SIZE GIN_TYPE GRAPH_DUMP_FILE_RANK
    GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER GRAPH_STREAM_ORDERING
    GROUP_CUDA_STREAM IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD IB_DATA_DIRECT IB_DEVICE_PCI_ORDER
    IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GID_INDEX IB_MERGE_NICS IB_MERGE_VFS IB_MQP_RETRY_ALL
    IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY
    IB_PREPOST_RECEIVE_WORK_REQUESTS IB_QPS_PER_CONNECTION IB_QUERY_PORT_SPEED
    IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER
    IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY
    IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX
    IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS
    IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS
    IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_TC IB_TIMEOUT IB_USE_INLINE
    IB_WARN_RAIL_LOCAL IGNORE_COLLNET_MISMATCH IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P
    IGNORE_NET_MISMATCH IPC_USE_ABSTRACT_SOCKET L1_SHARED_MEMORY_CARVEOUT LAUNCH_ORDER_IMPLICIT
    LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE LL128_C2C LL128_NTHREADS LL_BUFFSIZE
    LOCAL_REGISTER LSA_TEAM_SIZE MAX_CTAS MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS
    MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MLOPART_RDMA_ENABLE
    MNNVL MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE MNNVL_RAIL_PER_HOST
    MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID MULTI_RANK_GPU_ENABLE MULTI_SEGMENT_REGISTER
    NCHANNELS_PER_NET_PEER NCHANNELS_PER_PEER NET_DISABLE_INTRA NET_FORCE_FLUSH NET_GDR_C2C
    NET_GDR_MLOPART NET_GDR_READ NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_PLUGIN_REF_COUNT
    NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NUM_RMA_CTX NVB_DISABLE
    NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE
    NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE P2P_DIRECT_DISABLE P2P_EPOCH_ENABLE
    P2P_LL_THRESHOLD P2P_MAX_PEERS P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
    P2P_PER_CHANNEL_NET_BW P2P_PXN_LEVEL P2P_READ_ENABLE P2P_SCHEDULE_GROUP_SIZE
    P2P_USE_CUDA_MEMCPY PAT_ENABLE PROGRESS_APPENDOP_FREQ PROXY_APPEND_BATCH_SIZE
    PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ENABLE RAS_TIMEOUT_FACTOR REPORT_CONNECT_PROGRESS
    RMA_DISABLE RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE RUNTIME_CONNECT
    SET_CPU_STACK_SIZE SET_STACK_SIZE SHADOW_MEMPOOL_MAX_SIZE SHM_DISABLE SHM_LOCALITY
    SHM_MEMCPY_MODE SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE SOCKET_INLINE
    SOCKET_MIN_TASKSIZE SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT
    SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CE_THRESHOLD SYM_CTAS SYM_GIN_KERNELS_ENABLE
    SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE
    TOPO_DUMP_FILE_RANK TOPO_SPLIT_MLOPART UID_STAGGER_RATE UID_STAGGER_THRESHOLD
    UNPACK_DOUBLE_NCHANNELS WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES
    WORK_FIFO_DEPTH
"""
_RCCL_NUMBERS = """
    CLIQUE_ALLREDUCE_BYTE_LIMIT CLIQUE_ALLREDUCE_NCHANNELS CLIQUE_IGNORE_TOPO ENABLE_CLIQUE
    ENABLE_INTRANET ENABLE_SIGNALHANDLER FORCE_ENABLE_GDRDMA INTRANET_THRESHOLD
    KERNEL_COLL_TRACE_ENABLE LL128_FORCE_ENABLE MODEL_MATCHING_DISABLE MSCCLPP_ENABLE
    MSCCLPP_THRESHOLD MSCCL_ENABLE MSCCL_ENABLE_SINGLE_PROCESS MSCCL_FORCE_ENABLE
    MSCCL_FORCE_FULLOPS MSCCL_WORK_FIFO_DEPTH NET_CONTIGUOUS_MEM P2P_NET_DISABLE
    P2P_NET_THRESHOLD PIVOT_ALLTOALL_ENABLE STACK_SIZE_OVERRIDE USE_ROCM_SMI_LIB
"""
NUMBERS = frozenset(
    (
        "NCCL_P2P_DISABLE",
        *(f"NCCL_{name}" for name in _NCCL_NUMBERS.split()),
        *(f"RCCL_{name}" for name in _RCCL_NUMBERS.split()),
    )
)
"""Variables of whole numbers: every NCCL_PARAM and RCCL_PARAM of NCCL 2.12.7 to 2.30.7 and RCCL 2.21.5, and
NCCL_P2P_DISABLE (``ncclGetLevel``)."""


def check_values(variables: Mapping[str, str]) -> None:
    """Raises UsageError for a value that is not of its variable's kind; variables of no known kind pass."""
    for name, text in variables.items():
        if name in NUMBERS:
            whole_number(name, text.strip())
        elif name in WORDS:
            WORDS[name].check(name, text.strip())
