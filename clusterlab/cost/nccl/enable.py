"""Which algorithms and protocols NCCL has for a collective, switches on, and considers at a call.

`ncclTopoTuneModel` skips what does not exist and zeroes the bandwidth of what is switched off;
`updateCollCostTable` leaves out more when a collective is called. By version, see ``tables/``.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.constants import Constants
from clusterlab.cost.nccl.entry import Cell, Setting
from clusterlab.cost.nccl.overrides import Overrides
from clusterlab.cost.nccl.words import GATHERS, ROOTED, as_near, graph_of

_IN_SWITCH: Mapping[str, tuple[str, ...]] = {
    "int32": ("sum", "min", "max"),
    "int64": ("sum", "min", "max"),
    "float16": ("sum", "min", "max"),
    "bfloat16": ("sum", "min", "max"),
    "float32": ("sum",),
    "float64": ("sum",),
}
"""What NVSwitches reduce, by element type (`ncclNvlsSupported` of src/include/device.h, alike from 2.17 on).
avg is none of it: NCCL multiplies before it adds, or divides after.
"""


def exists(cell: Cell, setting: Setting) -> bool:
    """Whether NCCL computes this entry at all."""
    collective, algorithm, protocol = cell
    if algorithm not in setting.constants.rules["algorithms"]:
        return False
    if collective in ROOTED:
        return algorithm == "ring"
    if collective in GATHERS and not _gathers(algorithm, setting.constants):
        return False
    if algorithm in ("nvls", "nvls_tree"):
        few = graph_of(algorithm, setting.comm).channels < 2
        none = few and setting.constants.rules["nvls_bus"] == "efficiency"
        return protocol == "simple" and not none
    if algorithm == "pat":
        scatters = collective in GATHERS and protocol == "simple"
        return scatters and pat_enabled(setting.comm, setting.overrides)
    return True


def _gathers(algorithm: str, constants: Constants) -> bool:
    """Whether this release gathers and scatters by ``algorithm``."""
    if algorithm in ("collnet_direct", "nvls"):
        rule = {"collnet_direct": "collnet_direct_gather", "nvls": "nvls_gathers"}[algorithm]
        return bool(constants.rules[rule] != "none")
    return algorithm in ("pat", "ring")


def pat_enabled(comm: Communicator, overrides: Overrides) -> bool:
    """`ncclPatEnable`: one GPU per node, unless NCCL_PAT_ENABLE says otherwise."""
    if (comm.compute_capability or 0) < 60:
        return False
    return comm.nodes == comm.ranks if overrides.pat is None else overrides.pat


def collnet_on(comm: Communicator, overrides: Overrides) -> bool:
    """The network can reduce, and NCCL_COLLNET_ENABLE=1 asks for it (it is off by default)."""
    return comm.collnet and comm.nodes > 1 and bool(overrides.collnet)


def enabled(cell: Cell, setting: Setting) -> bool:
    """Whether the entry keeps its bandwidth: NCCL's own switches, NCCL_ALGO and NCCL_PROTO."""
    collective, algorithm, protocol = cell
    overrides = setting.overrides
    if not _algorithm_on(algorithm, setting):
        return False
    if not overrides.allows_algorithm(collective, algorithm):
        return False
    if not _heads_suffice(cell, setting):
        return False
    asked = overrides.allows_protocol(collective, protocol)
    if asked is not None:
        return asked
    return protocol != "ll128" or _ll128(algorithm, setting)


def _algorithm_on(algorithm: str, setting: Setting) -> bool:
    comm, overrides = setting.comm, setting.overrides
    if algorithm == "nvls_tree":
        return comm.nodes > 1
    if algorithm == "nvls":
        joins = setting.constants.rules["nvls_bus"] != "ring_graph"  # its first release did not
        return comm.nodes == 1 or (joins and collnet_on(comm, overrides))
    if algorithm == "collnet_direct":
        return collnet_on(comm, overrides) and comm.nvswitch
    return algorithm != "collnet_chain" or collnet_on(comm, overrides)


def _heads_suffice(cell: Cell, setting: Setting) -> bool:
    """all_gather and reduce_scatter over CollNet or NVLS between nodes need a NIC head per local rank."""
    asked = cell.algorithm == "collnet_direct" or (
        cell.algorithm == "nvls" and setting.constants.rules["nvls_gathers"] == "collnet"
    )
    if cell.collective not in GATHERS or not asked or setting.comm.nodes == 1:
        return True
    return setting.comm.heads >= setting.comm.ranks_per_node


def _ll128(algorithm: str, setting: Setting) -> bool:
    """LL128's own conditions; all GPUs of the communicator are taken to be alike."""
    rules, graph = setting.constants.rules, graph_of(algorithm, setting.comm)
    limit = "ll128_inter" if setting.sm < 90 else "ll128_inter_sm90"
    if setting.sm >= 90 and not setting.overrides.ll128_c2c:
        limit += "_without_c2c"
    known = setting.sm in rules["ll128_sm"] if rules["ll128_sm"] else setting.sm >= 70
    near = as_near(graph.type_inter, rules[limit])
    return known and near and as_near(graph.type_intra, rules["ll128_intra"])


def considered(cell: Cell, setting: Setting, dtype: str, op: str) -> bool:
    """Whether a call with ``dtype`` (torch's name) and ``op`` (of REDUCE_OPS) weighs this entry."""
    rules, comm = setting.constants.rules, setting.comm
    if cell.algorithm in ("collnet_direct", "collnet_chain"):
        most = rules[f"{cell.algorithm}_most_local_ranks"]
        return bool(most is None or comm.ranks_per_node <= most)
    if cell.algorithm == "pat":
        return cell.collective != "reduce_scatter" or op != "avg"
    if cell.algorithm not in ("nvls", "nvls_tree"):
        return True
    reduces = cell.collective != "all_gather"
    if not comm.nvls or (reduces and op not in _IN_SWITCH.get(dtype, ())):
        return False
    if cell.collective not in GATHERS:
        return True
    here = comm.nodes == 1 or rules["nvls_gathers"] == "collnet"
    return here and comm.ranks_per_node <= int(rules["nvls_arity"])
