"""The command that settles each cause, for the kind of machine at hand. Pure."""

from __future__ import annotations

from clusterlab.verdict.why.scene import Scene

_LOG = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,ENV"

CHECKS: dict[str, str] = {
    "P2P_DISABLED": "nvidia-smi topo -p2p r; env | grep NCCL_P2P; {log} and grep 'via SHM'",
    "NVLS_OFF": "{log},NVLS and grep -i nvls; env | grep NCCL_NVLS; nvidia-smi -q | grep -A2 -i fabric",
    "SLOW_LINK": "nvidia-smi nvlink -s; nvidia-smi nvlink -e; clusterlab p2p (every pair; one is low)",
    "NIC_HALF_WIDTH": "ibstat | grep -i rate; lspci -vv | grep -E 'LnkCap|LnkSta' on every NIC",
    "GDR_OFF": "{log} and grep GDRDMA; lsmod | grep -E 'nvidia_peermem|nv_peer_mem'; "
    "env | grep NCCL_NET_GDR",
    "ACS_IOMMU_DETOUR": "lspci -vvv | grep ACSCtl (SrcValid+ is on); cat /proc/cmdline | grep iommu; "
    "ib_write_bw --use_cuda",
    "TCP_FALLBACK": "{log} and grep -E 'NET/Socket|Using network'; env | grep -E 'NCCL_NET|NCCL_IB'; "
    "ls /dev/infiniband",
    "WRONG_NIC_OR_RAIL": "nvidia-smi topo -m; {log} and grep 'via NET'; "
    "env | grep -E 'NCCL_IB_HCA|CROSS_NIC'",
    "FEWER_NICS_THAN_EXPECTED": "{log} and grep 'Using \\['; "
    "ibstat | grep -c Active; env | grep NCCL_IB_HCA",
    "CONGESTION_OVERSUBSCRIPTION": "clusterlab bench --pairs one by one and together; ECN and PFC counters "
    "(ethtool -S | grep -iE 'pause|ecn'); clusterlab hunt",
    "ECMP_COLLISIONS": "run three times, then with NCCL_IB_QPS_PER_CONNECTION=4; clusterlab hunt",
    "MISPLACED_RANKS": "clusterlab place (a better order); scontrol show topology; "
    "run with the nodes in switch order",
    "ALGO_FORCED": "env | grep -E 'NCCL_ALGO|NCCL_TUNER'; {log},TUNING; unset it and run again",
    "PROTO_FORCED": "env | grep NCCL_PROTO; {log},TUNING; unset it and run again",
    "TOO_FEW_CHANNELS": "env | grep -E 'NCHANNELS|CTAS'; {log} and grep 'coll channels'; run with "
    "NCCL_NCHANNELS_PER_NET_PEER=4 or without the limit",
    "TOO_FEW_QPS": "run again with NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_SPLIT_DATA_ON_QPS=1",
    "LIBRARY_BUG": "run the window of sizes again with the release before and after; "
    "nccl-tests -c 1 (#wrong)",
    "COLD_START_OR_WARMUP": "run again with more warm-up (nccl-tests -w 20; "
    "clusterlab bench --warmup 20), or twice",
    "HOST_OVERHEAD_SMALL": "run captured in a graph (nccl-tests -G 20; clusterlab bench --timing graph); "
    "cpupower frequency-info; one process per GPU",
    "CPU_AFFINITY": "clusterlab bind explain; grep Cpus_allowed_list /proc/PID/task/*/status of the ranks",
    "SLOW_RANK": "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE on every node; "
    "nvidia-smi pmon (other jobs); "
    "leave one node out at a time",
    "UNKNOWN": "{log},TUNING; nvidia-smi topo -m; clusterlab p2p; send what the first causes rule out",
}

_AMD = {
    "P2P_DISABLED": "rocm-smi --showtopo; env | grep NCCL_P2P; {log} and grep 'via SHM'",
    "SLOW_LINK": "amd-smi xgmi; rocm-smi --showxgmierr; clusterlab p2p (every pair; one is low)",
    "SLOW_RANK": "rocm-smi -c -t --showpids on every node; leave one node out at a time",
}


def check(code: str, scene: Scene) -> str:
    """What to type to settle whether it is ``code``."""
    amd = scene.world.comm.library == "rccl"
    return (_AMD.get(code, CHECKS[code]) if amd else CHECKS[code]).format(log=_LOG)
