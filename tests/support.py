"""What tests of several rooms share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_dir() -> Path:
    """The folder of measured data and samples beside the checkout; skips the test where there is none.

    ``$CLUSTERLAB_SHARED`` names it, else a sibling ``shared`` of the checkout or of a folder above it.
    """
    named = os.environ.get("CLUSTERLAB_SHARED")
    above = Path(__file__).resolve().parents[1].parents
    for folder in [Path(named)] if named else [parent / "shared" for parent in above]:
        if folder.is_dir():
            return folder
    pytest.skip("no folder of shared data here (set CLUSTERLAB_SHARED)")
