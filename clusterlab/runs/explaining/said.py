"""What a run says of itself that would slow it: its environment, and what NCCL's own log said of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.cost.nccl.words import COLLECTIVES
from clusterlab.cost.types import PredictRequest
from clusterlab.verdict.why.described import Said, hindering
from clusterlab.verdict.why.world import World, world_of

_FEWER = 0.6

_UNREAD = ("NCCL_DEBUG", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_VERSION")
"""They change no time. NVIDIA's images set the last, which NCCL does not read."""

_UNEVEN = 1.3
"""A loop takes so many times its median call where some of its calls wait for something else."""

_UNEVEN_SIZES = 3


def said_by_environment(variables: Mapping[str, str]) -> tuple[tuple[Said, ...], tuple[str, ...]]:
    """Variables that take something away, and a remark of each that NCCL reads."""
    found = []
    remarks = []
    for name, value in sorted(variables.items()):
        if not name.startswith(("NCCL_", "RCCL_")) or name.startswith(_UNREAD):
            continue
        remarks.append(f"the run set {name}={value}; what is expected is without it")
        said = hindering(name, value)
        if said is not None:
            found.append(said)
    return tuple(found), tuple(remarks)


def said_by_rows(rows: Sequence[Row], request: PredictRequest) -> tuple[Said, ...]:
    """What NCCL's log says is otherwise than NCCL would have it on such machines."""
    world = world_of(request)
    comm = world.comm
    found: list[Said] = []
    transports = {
        word for row in rows for word in (row.transport or "").replace("+", ",").split(",")
    }
    words = " ".join(sorted(transports)).upper()
    if "SHM" in words and comm.ranks_per_node > 1 and not comm.host_memory:
        found.append(Said("P2P_DISABLED", "NCCL's log: transport SHM between GPUs of a host"))
    network = comm.network
    if "SOCKET" in words and network is not None and network.transport != "tcp":
        found.append(Said("TCP_FALLBACK", "NCCL's log: transport NET/Socket"))
    if comm.nodes > 1 and network is not None and network.gdr and any(r.gdr is False for r in rows):
        found.append(Said("GDR_OFF", "NCCL's log: no GPUDirect RDMA"))
    # Through host memory NCCL makes do with few channels, and may choose otherwise: no causes of their own.
    if request.collective in COLLECTIVES and not found:
        found += _choices(rows, world)
    return (*found, *_held_back(rows))


def cleared_by_rows(rows: Sequence[Row], request: PredictRequest) -> frozenset[str]:
    """Causes that NCCL's log rules out: it went the way, and chose what, it would on such machines."""
    world = world_of(request)
    comm, network = world.comm, world.comm.network
    words = [(row.transport or "").upper() for row in rows]
    found = set()
    if comm.ranks_per_node > 1 and all("P2P" in word and "SHM" not in word for word in words):
        found.add("P2P_DISABLED")
    if comm.nodes > 1 and network is not None:
        if all("NET/" in word and "SOCKET" not in word for word in words):
            found.add("TCP_FALLBACK")
        if network.gdr and all(row.gdr for row in rows):
            found.add("GDR_OFF")
    known = [row for row in rows if row.library_algorithm and row.library_protocol]
    if request.collective in COLLECTIVES and len(known) == len(rows):
        own = world.choices([row.size_bytes for row in known])
        ran = [(_word(row.library_algorithm), _word(row.library_protocol)) for row in known]
        for i, code in enumerate(("ALGO_FORCED", "PROTO_FORCED")):
            if all(choice[i] == one[i] for choice, one in zip(own, ran, strict=True)):
                found.add(code)
        largest = max(known, key=lambda row: row.size_bytes)
        channels = world.channels(largest.size_bytes)
        if channels is not None and (largest.library_channels or 0) >= channels:
            found.add("TOO_FEW_CHANNELS")
    return frozenset(found)


def _word(name: str | None) -> str:
    """NCCL's word for an algorithm or protocol, as ours."""
    return (name or "").lower().replace(" ", "_")


def _held_back(rows: Sequence[Row]) -> list[Said]:
    """Something besides the collective keeps a rank busy: its GPU's clock, or some of its calls."""
    found = []
    held = [row for row in rows if row.throttled]
    if 2 * len(held) > len(rows):
        clocks = [row.gpu_clock_mhz for row in held if row.gpu_clock_mhz is not None]
        clock = f", down to {min(clocks):.0f} MHz" if clocks else ""
        why = ", ".join(sorted({w for row in held for w in (row.throttled or "").split(",")}))
        found.append(
            Said("SLOW_RANK", f"GPUs held back at {len(held)} of {len(rows)} points ({why}){clock}")
        )
    uneven = [row for row in rows if 0 < _UNEVEN * row.time_us_p50 < row.time_us_loop]
    if len(uneven) >= _UNEVEN_SIZES:
        worst = max(uneven, key=lambda row: row.time_us_loop / row.time_us_p50)
        found.append(
            Said(
                "SLOW_RANK",
                f"at {len(uneven)} of {len(rows)} points a loop takes over {_UNEVEN} times its median "
                f"call ({worst.time_us_loop:.4g} and {worst.time_us_p50:.4g} µs at "
                f"{human_size(worst.size_bytes)}): some calls wait for something else",
            )
        )
    return found


def _choices(rows: Sequence[Row], world: World) -> list[Said]:
    """One algorithm or protocol at all sizes where NCCL would change it, and fewer channels."""
    known = [row for row in rows if row.library_algorithm and row.library_protocol]
    if not known:
        return []
    sizes = [row.size_bytes for row in known]
    own = world.choices(sizes)
    found = []
    for code, i, ran in (
        ("ALGO_FORCED", 0, [_word(row.library_algorithm) for row in known]),
        ("PROTO_FORCED", 1, [_word(row.library_protocol) for row in known]),
    ):
        otherwise = [k for k, choice in enumerate(own) if choice[i] != ran[k]]
        if len(set(ran)) == 1 and len({c[i] for c in own}) > 1 and otherwise:
            at = otherwise[-1]
            found.append(
                Said(
                    code,
                    f"NCCL's log: {ran[at]} at every size, {own[at][i]} expected at "
                    f"{human_size(sizes[at])}",
                )
            )
    found += _channels(known, world)
    return found


def _channels(rows: Sequence[Row], world: World) -> list[Said]:
    largest = max(rows, key=lambda row: row.size_bytes)
    own = world.channels(largest.size_bytes)
    if largest.library_channels is None or own is None or largest.library_channels > _FEWER * own:
        return []
    return [
        Said(
            "TOO_FEW_CHANNELS",
            f"NCCL's log: {largest.library_channels} channels at {human_size(largest.size_bytes)}, "
            f"{own} expected",
        )
    ]
