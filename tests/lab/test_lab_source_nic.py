"""The library that sends what a rank sends by its own NIC, on loopback addresses of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import clusterlab.lab.prepare as prepare_module

# The data network of a task whose NIC is 127.7.1.10 is 127.7.0.0/16: any address in it is local here.
MINE = "127.7.1.10"
KERNELS = "127.0.0.1"
"""What the kernel takes where nobody chooses."""

PEER = """
import json, socket, sys
to, family, bound = json.loads(sys.argv[1])
server = socket.create_server((to, 0))
name = server.getsockname()
client = socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET)
if bound:
    client.bind((bound, 0))
client.connect((f"::ffff:{to}" if family == 6 else to, name[1]))
print(json.dumps(server.accept()[1][0]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    path = tmp_path_factory.mktemp("nic") / "lib.so"
    prepare_module._compile(compiler, "source_nic.c", path)
    return path


@pytest.mark.parametrize(
    ("to", "family", "bound", "mine", "seen"),
    [
        ("127.7.2.11", 4, "", MINE, MINE),
        ("127.7.2.11", 6, "", MINE, MINE),
        ("127.7.2.11", 4, "127.9.9.9", MINE, "127.9.9.9"),  # somebody chose an address
        ("127.8.2.11", 4, "", MINE, KERNELS),  # not the data network
        ("127.7.2.11", 4, "", "", KERNELS),
        ("127.7.2.11", 4, "", "no address", KERNELS),
        ("127.7.2.11", 4, "", "127.7.2.11.5", KERNELS),
    ],
)
def test_a_connection_into_the_data_network_comes_from_the_tasks_nic(
    library: Path, to: str, family: int, bound: str, mine: str, seen: str
) -> None:
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(library)}
    found = subprocess.run(
        [sys.executable, "-S", "-c", PEER, json.dumps([to, family, bound])],
        env=environment | ({"SOURCENIC": mine} if mine else {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == seen


def test_a_refused_connection_stays_refused_with_its_own_error(library: Path) -> None:
    code = (
        "import socket\ns = socket.socket()\n"
        "try: s.connect(('127.7.2.11', 9))\nexcept ConnectionRefusedError: print(s.getsockname()[0])"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"LD_PRELOAD": str(library), "SOURCENIC": MINE},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert found.stdout == f"{MINE}\n", found.stderr
