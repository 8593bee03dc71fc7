"""How the ``topo`` commands print fabrics, findings and damage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clusterlab.core.findings import Finding

_SHOWN = 12

if TYPE_CHECKING:
    from clusterlab.topology.damage import Damage
    from clusterlab.topology.fabric import Fabric
    from clusterlab.topology.routing.repair import RepairReport


def summary_text(fabric: Fabric) -> str:
    """What the fabric holds, for a terminal."""
    from clusterlab.topology.summary import summary

    data = summary(fabric)
    lines = [f"{data['name']}: {data['description']}" if data["description"] else data["name"]]
    lines.append(f"  {data['hosts']:6d} hosts")
    lines += [f"  {count:6d} {kind}" for kind, count in data["devices"].items()]
    for link in data["links"]:
        speed = "speed unknown" if link["GBps"] is None else f"{link['GBps']:g} GB/s each way"
        lines.append(f"  {link['count']:6d} {link['class']} links, {speed}")
    return "\n".join(lines)


def damage_text(damage: Damage) -> str:
    """What breaking something took away, for a terminal."""
    lines = []
    for loss in damage.losses:
        parts = [f"{loss.down} down"] if loss.down else []
        parts += [f"{loss.degraded} degraded"] if loss.degraded else []
        lines.append(
            f"{loss.link_class}: {', '.join(parts)}, {loss.lost_GBps:g} GB/s each way lost"
            + (f" (and {loss.unknown} connections of unknown rate)" if loss.unknown else "")
        )
    hosts = damage.hosts
    if hosts:
        more = f", … {len(hosts)} in all" if len(hosts) > _SHOWN else ""
        lines.append(f"hosts affected: {', '.join(hosts[:_SHOWN])}{more}")
    if damage.rails:
        lines.append("rails affected: " + ", ".join(map(str, damage.rails)))
    lines.append(f"pairs cut: {damage.pairs_cut} of {damage.pairs}")
    if damage.alone:
        lines.append(f"reach nobody: {', '.join(damage.alone[:_SHOWN])}")
    return "\n".join(lines)


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
