"""Packages that few need: imported where they are used, named by one sentence where they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from clusterlab.core.errors import UsageError


def extra(module: str, name: str) -> ModuleType:
    """The imported ``module`` of the extra ``clusterlab[name]``. Raises UsageError without it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        # What is there and broken says so itself: another package of it is missing, or too old.
        broken = not (error.name or "").startswith(module.partition(".")[0])
        raise UsageError(
            f"{module} cannot be imported: {error}" if broken else f"{name} is not installed",
            where=f"export {name}" if name != "plotly" else "export zoom",
            fix=f"pip install 'clusterlab[{name}]'",
        ) from None
