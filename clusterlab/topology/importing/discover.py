"""What ``topo discover --facts`` wrote of one machine, as a fabric: for parts gathered by hand."""

from __future__ import annotations

import json

from clusterlab.core.errors import UsageError
from clusterlab.topology.discover.assemble import fabric_from_machine
from clusterlab.topology.discover.facts import MARK
from clusterlab.topology.discover.facts_json import machine_from_json
from clusterlab.topology.importing.imported import Imported

_HEAD = 256


def recognise(text: str) -> bool:
    """Whether this is a machine as ``topo discover`` saw it."""
    return text.lstrip()[:_HEAD].startswith("{") and f'"{MARK}"' in text[:_HEAD]


def read_discover(text: str, *, file: str) -> Imported:
    """The machine as a fabric. Raises UsageError for a damaged file."""
    try:
        data = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise UsageError(f"not JSON: {error}", where=f"{file}:{line}" if line else file) from None
    except RecursionError:
        raise UsageError("nested too deeply", where=file) from None
    return fabric_from_machine(machine_from_json(data, where=file))
