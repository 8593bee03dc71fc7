"""Where the files that travel with the package lie: topologies/, jobs/, slurm/, dashboards/.

In a checkout they are the top-level folders; in an installed wheel they are under
``clusterlab/_shipped``. The only place that knows.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped(folder: str) -> Path:
    """The directory of the shipped ``folder`` (``topologies``, ``jobs``, ``slurm``, ``dashboards``)."""
    inside = _PACKAGE / "_shipped" / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder
