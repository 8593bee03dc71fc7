"""Rails from the descriptions of links: ``rail 3``, ``NIC on rail 3``, ``switch on rail 3``.

InfraGraph has no field for them; these are the words clusterlab's own export writes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from clusterlab.topology.importing.infragraph_join import Joined
from clusterlab.topology.parts import SWITCH_KINDS, Device

_BOTH = re.compile(r"(?:^|; )rail (\d{1,4})$")
_NIC = re.compile(r"(?:^|; )NIC on rail (\d{1,4})(?:, |$)")
_SWITCH = re.compile(r"(?:^|[;,] )switch on rail (\d{1,4})$")


def rail_of_both(description: str) -> int | None:
    """The rail a link is on with both ends."""
    found = _BOTH.search(description)
    return None if found is None else int(found[1])


def with_rails(devices: Mapping[str, Device], cables: Iterable[Joined]) -> dict[str, Device]:
    """The NICs and switches with the rail that their links give them; none where two links differ."""
    told: defaultdict[str, set[int]] = defaultdict(set)
    for cable in cables:
        for end in (cable.a, cable.b):
            rail = _rail_at(devices[end], cable.link.description)
            if rail is not None:
                told[end].add(rail)
    return {
        name: replace(d, rail=min(told[name])) if len(told.get(name, ())) == 1 else d
        for name, d in devices.items()
    }


def _rail_at(device: Device, description: str) -> int | None:
    own = {"nic": _NIC} | dict.fromkeys(SWITCH_KINDS, _SWITCH)
    if device.kind not in own:
        return None
    found = _BOTH.search(description) or own[device.kind].search(description)
    return None if found is None else int(found[1])
