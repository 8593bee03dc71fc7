"""Links of a running lab that fail, lose a part of their rate, or heal."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.suggest import did_you_mean
from clusterlab.lab import control
from clusterlab.lab.fabric_files import write_fabric, write_network
from clusterlab.lab.fabric_of_lab import LabFabric, fabric_of
from clusterlab.lab.files import locked
from clusterlab.lab.labs import Lab
from clusterlab.lab.switches import read_data_network
from clusterlab.topology.failures.breakage import parse_breakage
from clusterlab.topology.failures.naming import Names, pairs_meant


def broken_now(lab: Lab) -> tuple[str, ...]:
    """What is broken, in the words of `topo break`. Raises UsageError for a lab without a fabric."""
    network = read_data_network(lab.layout)
    if network is None:
        raise UsageError(
            f"lab {lab.name} has no fabric",
            fix="clusterlab lab down, then up with --fabric lab-rails-4x2 or another",
        )
    return network.broken


def degrade(lab: Lab, links: Sequence[str], left: str) -> tuple[str, ...]:
    """Leave ``left`` (50%, 0.5, half, 8/16) of the rate of ``links``; what is broken then."""
    if parse_breakage(f"link:{left}").name != "link" or parse_breakage(f"link:{left}").left == 0:
        raise UsageError(
            f"{left!r}",
            where="--to",
            expected="a share above 0 and below 1: 50%, 0.5, half or 8/16",
            fix="lab fail takes a link down, lab heal gives all of it back",
        )
    return _break(lab, [f"{link}:{left}" for link in links])


def fail(lab: Lab, links: Sequence[str]) -> tuple[str, ...]:
    """Take ``links`` down; what is broken then."""
    for link in links:
        if parse_breakage(link).left:
            raise UsageError(f"{link!r} leaves a part", fix="lab degrade LINK --to SHARE does that")
    return _break(lab, list(links))


def heal(lab: Lab, links: Sequence[str]) -> tuple[str, ...]:
    """Give ``links`` (none named: all) their whole rate back; what is broken then."""
    with locked(lab.layout.run_dir):
        before = broken_now(lab)
        for link in links:
            if link not in map(_name, before):
                raise UsageError(
                    f"{link} was not broken",
                    where=f"lab {lab.name}",
                    expected=f"one of {', '.join(map(_name, before))}"
                    if before
                    else "nothing: all is whole",
                    fix=did_you_mean(link, map(_name, before)),
                )
        return _change(lab, [what for what in before if links and _name(what) not in links])


def _name(what: str) -> str:
    """What is broken without how far: ``leaf0/spine1#0`` of ``leaf0/spine1#0:half``."""
    breakage = parse_breakage(what)
    cable = "" if breakage.cable is None else f"#{breakage.cable}"
    return breakage.name + (f"@{breakage.host}" if breakage.host else "") + cable


def _break(lab: Lab, what: Sequence[str]) -> tuple[str, ...]:
    """Break ``what`` too; of the same link the newest word counts."""
    with locked(lab.layout.run_dir):
        names = set(map(_name, what))
        kept = [before for before in broken_now(lab) if _name(before) not in names]
        fabric = fabric_of(lab.layout, lab.spec)
        for each in what:
            _check_is_of_the_network(fabric, each)
        return _change(lab, [*kept, *what], fabric)


def _check_is_of_the_network(fabric: LabFabric, what: str) -> None:
    breakage = parse_breakage(what)
    if breakage.name in fabric.fabric.hosts:
        raise UsageError(
            f"{breakage.name} is a node",
            where=what,
            expected="a link, NIC or switch of the network",
            fix=f"clusterlab lab kill-node {breakage.name} cuts its power",
        )
    network = {(link.src, link.dst) for link in fabric.fabric.network_links}
    if network.isdisjoint(pairs_meant(Names(fabric.fabric), breakage)):
        raise UsageError(
            "lies inside a node, where a lab has nothing to shape",
            where=what,
            expected="a link, NIC or switch of the network",
        )


def _change(lab: Lab, broken: Sequence[str], fabric: LabFabric | None = None) -> tuple[str, ...]:
    """Have the lab take over what is broken now, and routes around it."""
    fabric = fabric or fabric_of(lab.layout, lab.spec)
    network = fabric.network(tuple(broken))
    write_network(lab.layout, network)
    write_fabric(lab.layout, fabric, tuple(broken))
    answer = control.ask(lab.layout.control, "network")
    if "error" in answer:
        raise ClusterlabError(answer["error"], where=f"lab {lab.name}")
    return network.broken
