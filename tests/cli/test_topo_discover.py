"""``topo discover`` as people type it."""

from __future__ import annotations

import json
import subprocess

from tests.conftest import CLI, clean_environment


def discover(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "topo", "discover", *words], env=clean_environment(), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


def test_it_prints_what_this_machine_has_and_what_could_not_be_seen() -> None:
    done = discover("--matrix")
    assert done.returncode == 0, done.stderr
    assert "CPU Affinity" in done.stdout


def test_json_is_that_of_an_import() -> None:
    data = json.loads(discover("--json").stdout)
    assert data["kind"] == "discover"
    assert data["devices"]["cpu"] >= 1
    assert isinstance(data["facts"]["notes"], list)


def test_a_listing_that_is_not_there_is_bad_input() -> None:
    done = discover("--ibnetdiscover", "none.out")
    assert done.returncode == 2
    assert "none.out: cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
