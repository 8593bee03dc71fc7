"""How the ``topo`` commands print fabrics, findings and damage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clusterlab.core.findings import Finding

_SHOWN = 12
_WORDS = {
    "gpu": "GPU",
    "cpu": "CPU",
    "nic": "NIC",
    "nvswitch": "NVSwitch",
    "pcie switch": "PCIe switch",
}

if TYPE_CHECKING:
    from clusterlab.topology.fabric import Fabric
    from clusterlab.topology.failures.damage import Damage, Loss
    from clusterlab.topology.routing.repair import RepairReport


def summary_text(fabric: Fabric) -> str:
    """What the fabric holds, for a terminal."""
    from clusterlab.topology.summary import summary

    data = summary(fabric)
    lines = [f"{data['name']}: {data['description']}" if data["description"] else data["name"]]
    aggregation = data["aggregation_nodes"]
    devices = {k: n - (aggregation if k == "nic" else 0) for k, n in data["devices"].items()}
    counts = [_counted(data["hosts"], "host") + _roles(data["hosts_by_role"])]
    counts += [_counted(n, k.replace("_", " ")) for k, n in devices.items() if k != "host"]
    counts += [_counted(aggregation, "SHARP aggregation node")] if aggregation else []
    counts += [_counted(data[word], word[:-1]) for word in ("rails", "planes") if data[word]]
    if data["rail_aligned"] is False:
        counts.append("not rail-aligned")
    counts += [_counted(n, f"Slurm {kind}") for kind, n in data["host_groups"].items()]
    lines.append("  " + ", ".join(counts))
    lines += [f"  {k['count']:7d} {k['class']:8s} {_speed(k)}" for k in data["links"]]
    lines += ["  " + _tier(tier) for tier in data["tiers"]]
    ratio = data["oversubscription"]
    cut = ratio["leaves_without_uplink"]
    if cut:
        lines.append(
            f"  {_counted(cut, 'leaf')} without a live uplink: {ratio['worst_leaf']}"
            + (" …" if cut > 1 else "")
        )
    elif ratio["live"] is not None:
        lines.append(
            f"  oversubscription of the worst leaf ({ratio['worst_leaf']}), down : up: "
            f"{ratio['live']:.3g} live, {ratio['nominal']:.3g} as wired"
        )
    per_gpu = data["per_gpu"]
    rates = [("scale_up_GBps", "inside its domain"), ("scale_out_GBps", "to the network")]
    known = [f"{per_gpu[key]:g} GB/s {where}" for key, where in rates if per_gpu[key]]
    if known:
        lines.append("  per GPU: " + ", ".join(known))
    down = {word: n for word, n in data["down"].items() if n}
    if down:
        shown = ", ".join(_counted(n, word[:-1]) for word, n in down.items())
        lines.append(f"  down or degraded: {shown} (clusterlab topo check says which)")
    return "\n".join(lines)


def _roles(hosts: dict[str, int]) -> str:
    """Which of the hosts serve what, where more than one role is known."""
    if len(hosts) < 2:
        return ""
    return f" ({', '.join(f'{n} {role}' for role, n in hosts.items())})"


def _counted(count: int, word: str) -> str:
    shown = _WORDS.get(word, word)
    if count != 1:
        shown = (
            shown[:-1] + "ves"
            if word.endswith("leaf")
            else shown + ("es" if shown.endswith("ch") else "s")
        )
    return f"{count} {shown}"


def _speed(link: dict[str, Any]) -> str:
    if link["GBps"] is not None:
        return f"{link['GBps']:g} GB/s each way"
    if link.get("wire_GBps") is not None:
        return f"{link['wire_GBps']:g} GB/s on the wire each way"
    return "speed unknown"


def _tier(tier: dict[str, Any]) -> str:
    live, cables = tier["live_cables_down"], tier["cables_down"]
    shown = f"{live} of {cables}" if live != cables else f"{cables}"
    role = "" if tier["role"] in (None, "compute") else f"{tier['role']} "
    return f"{_counted(tier['switches'], role + tier['kind'])}: {shown} cables to what is below"


def damage_text(damage: Damage) -> str:
    """What breaking something took away, for a terminal."""
    lines = [_loss(loss) for loss in damage.losses]
    for what, hosts in (
        ("hosts cut off", damage.hosts_cut),
        ("hosts with a broken link of their own", damage.hosts_broken),
        ("hosts that only share less above them", damage.hosts_sharing),
    ):
        if hosts:
            lines.append(f"{what}: {_some(hosts)}")
    if damage.rails:
        lines.append("rails affected: " + ", ".join(map(str, damage.rails)))
    lines.append(f"pairs cut: {damage.pairs_cut} of {damage.pairs}")
    lines += [f"  {detour.text()}" for detour in damage.detours]
    if damage.alone:
        lines.append(f"reach nobody: {_some(damage.alone)}")
    return "\n".join(lines)


def _loss(loss: Loss) -> str:
    parts = [f"{loss.down} down"] if loss.down else []
    parts += [f"{loss.degraded} degraded"] if loss.degraded else []
    if loss.lost_GBps is None:
        return f"{loss.link_class}: {', '.join(parts)}, of unknown rate"
    more = f" (and {loss.unknown} connections of unknown rate)" if loss.unknown else ""
    return f"{loss.link_class}: {', '.join(parts)}, {loss.lost_GBps:g} GB/s each way lost{more}"


def _some(names: Sequence[str]) -> str:
    more = f", … {len(names)} in all" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def repair_text(report: RepairReport) -> str:
    """What a failure costs random pairs, stage by stage, for a terminal."""
    lines = [
        f"{report.pairs} random pairs of NICs, {report.policy} routing:",
        f"  {'stage':10s}  {'cut':>7s}  {'moved':>7s}  {'fullest cable':>13s}",
    ]
    for stage in report.stages:
        moved = "-" if stage.moved is None else f"{stage.moved:7.2%}"
        full = f"{stage.worst_GBps:g}"
        after = f"  after {stage.seconds[0]:g}-{stage.seconds[1]:g} s" if stage.seconds else ""
        lines.append(
            f"  {stage.name:10s}  {stage.cut:7.2%}  {moved:>7s}  {full:>13s}  {stage.worst_cable}{after}"
        )
    lines.append("  fullest cable: its load where every pair sends 1 GB/s")
    if report.cut_off:
        more = f", … {len(report.cut_off)} in all" if len(report.cut_off) > _SHOWN else ""
        lines.append(f"cut off whatever the routing: {', '.join(report.cut_off[:_SHOWN])}{more}")
    return "\n".join(lines)


def findings_text(findings: Sequence[Finding]) -> str:
    """Every finding in a few lines: severity and code, evidence, fix. Most severe first as given."""
    if not findings:
        return "no findings"
    lines = []
    for finding in findings:
        lines.append(f"{finding.severity.value}: {finding.code}")
        lines += [f"    {evidence}" for evidence in finding.evidence]
        lines.append(f"    -> {finding.fix}")
    return "\n".join(lines)
