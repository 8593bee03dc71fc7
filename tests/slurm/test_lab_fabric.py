"""Labs with a fabric: links carry what the design says, fail, lose rate and heal; ranks use their NICs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.lab import faults, labs, lifecycle
from clusterlab.lab.check import PairRate, check_lab, suspects
from clusterlab.lab.fabric_of_lab import LabFabric, open_lab_fabric
from clusterlab.lab.labs import Lab, run
from clusterlab.lab.machine import observe, sized
from clusterlab.topology.failures.faults import find_faults
from clusterlab.topology.opening import open_fabric
from tests.slurm.leftovers import machine_state, remaining, traces


def up(fabric: LabFabric, called: str, name: str, base: Path, share: Path) -> Lab:
    identity = {"fabric": called, "fabric_digest": fabric.fabric.digest, "routing": fabric.routing}
    spec = sized(observe(), **fabric.shape, **identity)  # type: ignore[arg-type]
    return lifecycle.up(spec, fabric=fabric, name=name, base=base, share=[share])


@pytest.fixture(scope="module")
def rails(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """The lab of lab-rails-4x2. A test leaves it whole and idle."""
    fabric = open_lab_fabric("lab-rails-4x2", "pinned")
    yield up(fabric, "lab-rails-4x2", "rails", lab_base, tmp_path_factory.getbasetemp())
    lifecycle.down(name="rails", base=lab_base)


def rate_of(rates: list[PairRate], pair: str) -> float:
    (found,) = [rate for rate in rates if rate.path.name == pair]
    return found.measured_GBps


def test_every_pair_of_nics_gets_what_the_design_says_whole_halved_and_failed(rails: Lab) -> None:
    whole = check_lab(rails, seconds=0.3)
    assert len(whole) == 8 * 6
    assert [rate for rate in whole if rate.is_off()] == []
    crossing = next(r.path for r in whole if ("leaf0/spine0", True) in r.path.cables)

    faults.degrade(rails, ["leaf0/spine0"], "half")
    halved = check_lab(rails, ["n0", "n1", "n2"], seconds=0.3)
    assert [rate for rate in halved if rate.is_off()] == []
    assert rate_of(halved, crossing.name) == pytest.approx(0.01225, rel=0.1)

    # The truth moved, the design did not: against the whole design the pairs name the cable.
    designed = {rate.path.name: rate.path for rate in whole}
    wrong = [PairRate(designed[rate.path.name], rate.measured_GBps) for rate in halved]
    assert suspects(wrong) == ["leaf0/spine0"]

    faults.fail(rails, ["leaf0/spine0", "n3/nic1"])
    failed = check_lab(rails, ["n0", "n2", "n3"], seconds=0.3)
    assert [rate for rate in failed if rate.is_off()] == []
    assert rate_of(failed, crossing.name) > 0.02, "the other spine is as good"
    assert rate_of(failed, "n0/nic1 -> n3/nic1") == 0
    assert labs.status(rails).broken == ("leaf0/spine0", "n3/nic1")
    broken = find_faults(open_fabric(str(rails.layout.fabric)))
    assert {c.name for c in broken.hurt if c.link_class == "ethernet"} == {
        "leaf0/spine0",
        "n3/nic1/leaf3",
    }
    assert faults.heal(rails, []) == ()


RANK = """
import os, socket, subprocess, sys, time
from pathlib import Path
me, folder = int(os.environ["SLURM_PROCID"]), Path(sys.argv[1])
nic = os.environ["GLOO_SOCKET_IFNAME"]
name = f"{os.environ['SLURMD_NODENAME']}-{nic}"
server = socket.create_server((socket.gethostbyname(name), 0))
(folder / f"{me}.new").write_text(f"{name} {server.getsockname()[1]}")
(folder / f"{me}.new").rename(folder / f"{me}.at")
others = [folder / f"{other}.at" for other in range(8) if other != me]
while not all(path.exists() for path in others):
    time.sleep(0.02)
for path in others:
    host, port = path.read_text().split()
    socket.create_connection((host, int(port)), 10)
seen = [server.accept()[1][0] for _ in others]
print(me, name, *sorted(socket.gethostbyaddr(address)[0] for address in seen))
"""


def test_ranks_reach_each_other_from_their_own_nics_across_rails(
    rails: Lab, tmp_path: Path
) -> None:
    command = [
        "srun",
        "-N4",
        "--ntasks-per-node=2",
        sys.executable,
        "-S",
        "-c",
        RANK,
        str(tmp_path),
    ]
    found = run(rails, command)
    assert found.returncode == 0, found.stderr
    every = {rank: f"n{rank // 2}-nic{rank % 2}" for rank in range(8)}
    said = {int(line.split()[0]): line.split()[1:] for line in found.stdout.splitlines()}
    assert said == {
        rank: [name, *sorted(set(every.values()) - {name})] for rank, name in every.items()
    }


def test_a_job_runs_on_the_other_nic_while_its_own_is_down(rails: Lab) -> None:
    command = [
        "srun",
        "-N2",
        "--ntasks-per-node=2",
        "sh",
        "-c",
        "echo $(hostname) $GLOO_SOCKET_IFNAME",
    ]
    faults.fail(rails, ["n1/nic0"])
    found = sorted(run(rails, command).stdout.splitlines())
    faults.heal(rails, ["n1/nic0"])
    assert found == ["n0 nic0", "n0 nic1", "n1 nic1", "n1 nic1"]
    assert "n1 nic0" in run(rails, command).stdout


def test_a_node_that_boots_again_is_wired_as_before_with_what_broke_meanwhile(rails: Lab) -> None:
    lifecycle.kill_node(rails, "n2")
    faults.degrade(rails, ["n2/nic0"], "half")
    lifecycle.boot_node(rails, "n2")
    rates = check_lab(rails, ["n0", "n2"], seconds=0.3)
    faults.heal(rails, [])
    assert [rate for rate in rates if rate.is_off()] == []
    assert rate_of(rates, "n0/nic0 -> n2/nic0") == pytest.approx(0.01225, rel=0.1)


def test_a_switch_can_be_looked_at(rails: Lab) -> None:
    found = run(rails, ["sh", "-c", "hostname; tc qdisc; ip route"], node="spine1")
    assert found.stdout.splitlines()[0] == "spine1"
    assert found.stdout.count("rate 200Mbit") == 4
    # By d-mod-k two NICs of each leaf's other half of destinations: all of it is in the routes.
    assert (
        sum("unreachable" not in line for line in found.stdout.splitlines() if "10.78" in line) == 4
    )
    with pytest.raises(UsageError, match="unknown node 'spine2'"):
        run(rails, ["true"], node="spine2")


def test_the_cli_breaks_checks_and_heals(rails: Lab) -> None:
    def cli(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "clusterlab", "lab", *words, "--name", "rails"],
            env={"CLUSTERLAB_LABS": str(rails.layout.run_dir.parent), **labs.environment(rails)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert cli("degrade", "leaf1/spine0", "--to", "25%").stdout.split() == [
        "broken",
        "leaf1/spine0:25%",
    ]
    status = json.loads(cli("status", "--json").stdout)
    assert status["broken"] == ["leaf1/spine0:25%"]
    assert status["fabric"] == "lab-rails-4x2"
    file = cli("fabric").stdout.strip()
    assert "leaf1/spine0:25%" in Path(file).read_text()
    checked = cli("check", "n0", "n1", "--seconds", "0.3", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    pairs = json.loads(checked.stdout)["pairs"]
    assert {round(p["design_GBps"], 6) for p in pairs} == {0.0245, 0.006125}
    refused = cli("fail", "leaf9")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert cli("heal").stdout.split() == ["all", "links", "whole"]


def test_a_lab_of_ones_own_design_comes_up_with_hash_routing_and_leaves_nothing(
    can_hold_labs: None, lab_base: Path, tmp_path: Path
) -> None:
    before = machine_state()
    design = tmp_path / "mine.yaml"
    design.write_text("base: lab-2to1-4x2\nbroken: ['leaf0/spine1:half']\n")
    lab = up(open_lab_fabric(str(design), "hash"), str(design), "mine", lab_base, tmp_path)
    design.unlink()
    seen = traces(lab)
    rates = check_lab(lab, ["n1", "n2"], seconds=0.3)
    assert lifecycle.down(name="mine", base=lab_base)
    assert remaining(seen, lab.layout.run_dir) == []
    assert machine_state() == before
    assert [rate for rate in rates if rate.is_off()] == []
    assert {round(rate.path.GBps, 5) for rate in rates} == {0.0245, 0.01225}
