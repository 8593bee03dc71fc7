"""What tests on GPUs share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def gpus() -> int:
    """Number of GPUs, asked of the driver: this process must not touch CUDA before it forks."""
    count = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if count == 0:
        pytest.skip("no NVIDIA GPU on this machine")
    return count
