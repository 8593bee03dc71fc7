"""The rail of a link's ends in the words of an InfraGraph link's description, which has no field for it.

``rail 3``: both ends are on it. ``NIC on rail 3``, ``switch on rail 3``: that end alone says so.
"""

from __future__ import annotations

from clusterlab.topology.parts import SWITCH_KINDS, Device


def rail_words(a: Device, b: Device) -> str:
    """What to say of the rails of two linked devices; empty where there is nothing to say.

    A switch between others says its rail only where the other end is on it too.
    """
    if a.rail is not None and a.rail == b.rail:
        return f"rail {a.rail}"
    if a.kind in SWITCH_KINDS and b.kind in SWITCH_KINDS:
        return ""
    told = [
        f"{'NIC' if end.kind == 'nic' else 'switch'} on rail {end.rail}"
        for end in (a, b)
        if end.rail is not None and (end.kind == "nic" or end.kind in SWITCH_KINDS)
    ]
    return ", ".join(sorted(told))
