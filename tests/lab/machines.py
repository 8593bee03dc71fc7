"""Machines that tests pretend to run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clusterlab.lab.layout import Layout
from clusterlab.lab.machine import Machine

LAYOUT = Layout(Path("/run/labs/demo"))

SMALL = Machine(
    hostname="box",
    cpus=(0, 1),
    memory_mb=24000,
    gpus=(),
    compiler="/usr/bin/cc",
    root=True,
    user="root",
    pmix_lib_to_mend=None,
)
GPU_SERVER = replace(
    SMALL,
    hostname="gpu1",
    cpus=tuple(range(16)),
    memory_mb=128000,
    gpus=("/dev/nvidia0", "/dev/nvidia1"),
)
