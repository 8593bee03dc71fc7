"""``topo discover`` as one process and over torchrun: who looks, who writes, what is said of the missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.runs.diagnosing.discovery import (
    DiscoverOptions,
    machines_of,
    missing_finding,
    run_discover,
)
from clusterlab.topology.discover.facts import MachineFacts
from clusterlab.topology.importing.discover import read_discover
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.opening import open_fabric
from tests.conftest import LAUNCHERS, clean_environment

HERE = """
import sys
from pathlib import Path
from clusterlab.runs.diagnosing.discovery import DiscoverOptions, run_discover
show = lambda found: print("hosts", *found.fabric.hosts)
sys.exit(run_discover(DiscoverOptions(output=Path(sys.argv[1]), deadline_s=60), show))
"""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher made this process a rank."""
    import os

    for name in list(os.environ):
        if name.startswith(LAUNCHERS) or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("alone")
def test_alone_it_writes_a_fabric_that_opens_again(tmp_path: Path) -> None:
    found: list[Imported] = []
    output = tmp_path / "fabric.yaml"
    assert run_discover(DiscoverOptions(output=output), found.append) == 0
    again = open_fabric(str(output))
    assert again.devices == found[0].fabric.devices
    assert again.links == found[0].fabric.links
    assert again.of_kind("cpu")


@pytest.mark.usefixtures("alone")
def test_a_batch_script_is_on_the_node_that_slurm_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    found: list[Imported] = []
    run_discover(DiscoverOptions(), found.append)
    assert found[0].fabric.hosts == ("n3",)


@pytest.mark.usefixtures("alone")
def test_the_facts_of_one_machine_can_be_kept_and_imported(tmp_path: Path) -> None:
    found: list[Imported] = []
    facts = tmp_path / "facts.json"
    run_discover(DiscoverOptions(facts=facts), found.append)
    assert read_discover(facts.read_text(), file="facts.json").fabric == found[0].fabric


@pytest.mark.usefixtures("alone")
def test_only_ibnetdiscovers_output_is_a_listing_of_switches(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text("SwitchName=s0 Nodes=n[0-1]\n")
    with pytest.raises(UsageError, match="kind slurm_topology"):
        run_discover(DiscoverOptions(ibnetdiscover=file), lambda found: None)


def test_one_look_a_host_is_joined_whatever_ranks_there_are() -> None:
    facts = {host: MachineFacts(host).to_json() for host in ("n0", "n1")}
    records = [
        {"rank": 0, "host": "n0", "machine": facts["n0"]},
        {"rank": 1, "host": "n0", "machine": None},
        {"rank": 2, "host": "n1", "machine": json.loads(json.dumps(facts["n1"]))},
        {"rank": 3, "host": "n1", "machine": facts["n1"]},
    ]
    assert [m.host for m in machines_of(records[1:])] == ["n1"]
    assert [m.host for m in machines_of(json.loads(json.dumps(records)))] == ["n0", "n1"]


def test_a_missing_node_is_fatal_and_named() -> None:
    assert missing_finding([]) == []
    (finding,) = missing_finding([3, 4])
    assert (finding.code, finding.severity, finding.ranks) == ("node_missing", "fatal", (3, 4))


@pytest.mark.ranks
def test_torchruns_ranks_of_one_host_are_one_machine(tmp_path: Path) -> None:
    script = tmp_path / "discover.py"
    script.write_text(HERE)
    words = ["-m", "torch.distributed.run", "--nproc-per-node=2", str(script)]
    environment = clean_environment(OMP_NUM_THREADS="1", PYTHONPATH=str(Path(__file__).parents[2]))
    done = subprocess.run(
        [sys.executable, *words, str(tmp_path / "fabric.yaml")],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hosts ") == 1
    assert len(open_fabric(str(tmp_path / "fabric.yaml")).hosts) == 1
