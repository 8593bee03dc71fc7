"""Rules about network devices: far from the GPU, filtered by prefixes, differing filters, rails."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.rendezvous import nccl_matches
from clusterlab.binding.diagnose.saying import finding, those, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.records import NicRecord, NodeRecord, RankRecord
from clusterlab.core.findings import Finding

_HCA = "NCCL_IB_HCA"


def _fabric_nics(node: NodeRecord) -> list[NicRecord]:
    return [n for n in node.nics if n.kind != "ethernet"]


def _near(scene: Scene, rank: RankRecord) -> list[NicRecord]:
    """The NICs nearest to the rank's GPU: of its PCI switch, else of its NUMA domain; [] if unknown."""
    device, node = scene.device(rank), scene.node(rank)
    if device is None or device.gpu is None or node is None:
        return []
    nics = _fabric_nics(node)
    beside = [n for n in nics if n.near_gpu == device.gpu.index]
    if beside or any(n.near_gpu is not None for n in nics):
        return beside or _same_domain(nics, device.gpu.numa)
    return _same_domain(nics, device.gpu.numa)


def _same_domain(nics: Sequence[NicRecord], numa: int | None) -> list[NicRecord]:
    return [n for n in nics if numa is not None and numa >= 0 and n.numa == numa]


def far_nic(scene: Scene) -> Iterable[Finding]:
    """NIC_FAR: traffic leaves by a NIC although another is nearer to the rank's GPU."""
    for _, ranks in scene.hosts:
        bad, evidence, wanted = [], [], {}
        for rank in ranks:
            near = [n.name for n in _near(scene, rank)]
            words = _leaves_by(scene, rank, near)
            if near and words:
                bad.append(rank)
                wanted[rank.local_rank] = near[0]
                evidence.append(f"{who(rank)}: {words}; nearest is {', '.join(near)}")
        if bad:
            names = list(dict.fromkeys(wanted.values()))
            fix = (
                f"unset {_HCA}\n# NCCL takes the nearest; or list all:"
                f" export {_HCA}=={','.join(_all_names(scene, bad[0]))}"
            )
            if any(r.nic_used for r in bad) or any("UCX_NET_DEVICES" in r.env for r in bad):
                per_rank = ", ".join(f"local rank {k}: {v}:1" for k, v in list(wanted.items())[:8])
                fix = f"unset {_HCA}\n# for NCCL ({', '.join(names[:4])} are nearest); UCX: export"
                fix += f" UCX_NET_DEVICES per rank in a wrapper ({per_rank})"
            yield finding("NIC_FAR", bad, evidence, fix)


def _leaves_by(scene: Scene, rank: RankRecord, near: Sequence[str]) -> str | None:
    """Why the rank does not use a near NIC, in words; None: it does, or may."""
    node = scene.node(rank)
    if node is None:
        return None
    names = [n.name for n in _fabric_nics(node)]
    if rank.nic_used is not None:
        used = rank.nic_used.partition(":")[0]
        return f"uses {used}" if used in names and used not in near else None
    for variable in (_HCA, "UCX_NET_DEVICES"):
        text = rank.env.get(variable, "")
        spec = text if variable == _HCA else f"={text}"
        matched = nccl_matches(spec, names) if text else []
        if matched and not set(matched) & set(near):
            return f"{variable}={text} leaves {', '.join(matched)}"
    return None


def _all_names(scene: Scene, rank: RankRecord) -> list[str]:
    node = scene.node(rank)
    return [n.name for n in _fabric_nics(node)] if node else []


def prefix_matches_more(scene: Scene) -> Iterable[Finding]:
    """NIC_FILTER_PREFIX: a full device name that is also the beginning of others (mlx5_1, mlx5_10)."""
    bad, evidence, fixed = [], [], ""
    for rank in scene.ranks:
        node = scene.node(rank)
        devices = {_HCA: [n.name for n in node.nics] if node else []}
        devices["NCCL_SOCKET_IFNAME"] = list(rank.interfaces or ())
        for variable, names in devices.items():
            text = rank.env.get(variable, "")
            more = _more_than_meant(text, names)
            if more:
                bad.append(rank)
                fixed = fixed or f"{variable}={_exact(text)}"
                evidence.append(f"{who(rank)}: {variable}={text} also matches {', '.join(more)}")
    if bad:
        fix = f"export {fixed}\n# = once in front of the list: exact names; ^= to exclude"
        yield finding("NIC_FILTER_PREFIX", bad, evidence, fix)


def _more_than_meant(text: str, names: Sequence[str]) -> list[str]:
    """Devices matched because a name with a number at its end is a prefix of theirs."""
    rest = text.removeprefix("^")
    if not text or rest.startswith("="):
        return [e for e in rest.split(",")[1:] if e.startswith(("=", "^"))]
    wanted = [e.partition(":")[0] for e in rest.split(",") if e]
    longer = [
        n for w in wanted for n in names if n not in wanted and re.fullmatch(re.escape(w) + r"[0-9]+", n)
        and re.search(r"[0-9]$", w)
    ]  # fmt: skip
    marks = [e for e in rest.split(",")[1:] if e.startswith(("=", "^"))]
    return [*dict.fromkeys(longer), *marks]


def _exact(text: str) -> str:
    mark = "^=" if text.startswith("^") else "="
    return mark + ",".join(e.lstrip("^=") for e in text.split(","))


def filters_differ(scene: Scene) -> Iterable[Finding]:
    """NIC_FILTER_DIVERGENT: ranks of one node with different NCCL filters; NCCL wants one for all."""
    for host, ranks in scene.hosts:
        for variable in (_HCA, "NCCL_SOCKET_IFNAME"):
            values: dict[str | None, list[RankRecord]] = defaultdict(list)
            for rank in ranks:
                values[rank.env.get(variable)].append(rank)
            if len(values) < 2:
                continue
            evidence = [
                f"{host}, {those(there)}: {variable} {'unset' if v is None else f'= {v}'}"
                for v, there in values.items()
            ]
            fix = (
                f"{_one_filter(scene, ranks, variable)}\n# the same for all ranks of a node: NCCL itself"
                " gives each GPU its nearest; UCX_NET_DEVICES may differ per rank"
            )
            yield finding("NIC_FILTER_DIVERGENT", ranks, evidence, fix)


def _one_filter(scene: Scene, ranks: Sequence[RankRecord], variable: str) -> str:
    """A filter for all ``ranks``: by exact names all that their own ones match, where names are known.

    Elsewhere the entries together, as prefixes unless all were exact; ``unset`` where some exclude.
    """
    texts = [text for r in ranks if (text := r.env.get(variable))]
    node = scene.node(ranks[0])
    devices = [n.name for n in node.nics] if node else []
    names = devices if variable == _HCA else list(ranks[0].interfaces or ())
    matched = [n for n in names if any(n in nccl_matches(text, names) for text in texts)]
    if matched:
        return f"export {variable}=={','.join(matched)}"
    if names or not texts or any(text.startswith("^") for text in texts):
        return f"unset {variable}"
    mark = "=" if all(text.startswith("=") for text in texts) else ""
    union = sorted({e for text in texts for e in text.removeprefix("=").split(",") if e})
    return f"export {variable}={mark}{','.join(union)}"


def filter_matches_nothing(scene: Scene) -> Iterable[Finding]:
    """IFACE_WRONG: NCCL_IB_HCA names no device of the node: NCCL falls back to sockets."""
    bad, evidence = [], []
    for rank in scene.ranks:
        node, text = scene.node(rank), rank.env.get(_HCA, "")
        names = [n.name for n in _fabric_nics(node)] if node else []
        if text and names and not nccl_matches(text, names):
            bad.append(rank)
            evidence.append(f"{who(rank)}: {_HCA}={text} matches none of {', '.join(names)}")
    if bad:
        fix = f"unset {_HCA}\n# or export {_HCA}=={','.join(_all_names(scene, bad[0]))}"
        yield finding("IFACE_WRONG", bad, evidence, fix)


def rails_differ(scene: Scene) -> Iterable[Finding]:
    """NIC_RAIL_MISMATCH: the same GPU position uses different rails on different nodes."""
    for world in scene.worlds:
        rails: dict[int, dict[int, list[RankRecord]]] = defaultdict(lambda: defaultdict(list))
        for rank in world:
            rail = _rail(scene, rank)
            device = scene.device(rank)
            position = device.gpu.index if device and device.gpu else rank.local_rank
            if rail is not None and position is not None:
                rails[position][rail].append(rank)
        split = {p: by for p, by in rails.items() if len(by) > 1}
        bad = [r for by in split.values() for there in by.values() for r in there]
        if bad and len({r.host for r in bad}) > 1:
            evidence = [
                f"GPU {p}: "
                + ", ".join(f"rail {rail} on {there[0].host}" for rail, there in by.items())
                for p, by in split.items()
            ]
            fix = (
                "export NCCL_CROSS_NIC=1\n# until GPU i of every node is cabled to rail i (or the NICs are"
                " renamed alike)"
            )
            yield finding("NIC_RAIL_MISMATCH", bad, evidence, fix)


def _rail(scene: Scene, rank: RankRecord) -> int | None:
    if rank.rail is not None:
        return rank.rail
    node = scene.node(rank)
    if rank.nic_used is not None and node is not None:
        used = rank.nic_used.partition(":")[0]
        return next((n.rail for n in node.nics if n.name == used), None)
    near = _near(scene, rank)
    return near[0].rail if len(near) == 1 else None


RULES = (
    far_nic,
    prefix_matches_more,
    filters_differ,
    filter_matches_nothing,
    rails_differ,
)
