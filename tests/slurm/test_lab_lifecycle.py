"""Labs coming up and going down, nodes losing power, and what must not stay behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clusterlab.core.errors import DeadlineError, UsageError
from clusterlab.lab import labs, lifecycle
from clusterlab.lab.labs import run
from clusterlab.lab.machine import observe, sized
from clusterlab.lab.processes import process, wait_until
from tests.slurm.conftest import MakeLab, refuse, wait_for_state
from tests.slurm.leftovers import machine_state, remaining, traces

CLUSTERLAB = "import sys; from clusterlab.cli.main import main; sys.exit(main())"


def test_ten_times_up_and_down_leaves_nothing(can_hold_labs: None, lab_base: Path) -> None:
    before = machine_state()
    spec = sized(observe(), nodes=2)
    for _ in range(10):
        lab = lifecycle.up(spec, name="again", base=lab_base)
        found = run(lab, ["srun", "-N2", "hostname"])
        assert sorted(found.stdout.split()) == ["n0", "n1"], found.stderr
        seen = traces(lab)
        # Two daemons, two nodes, their slurmd; the login host, two nodes in namespaces of five kinds.
        assert len(seen.processes) >= 7
        assert len(seen.namespaces) == 15
        assert lifecycle.down(name="again", base=lab_base)
        assert remaining(seen, lab.layout.run_dir) == []
        assert not lab.layout.run_dir.exists()
    assert machine_state() == before


def test_five_labs_side_by_side_do_not_meet_and_leave_nothing(
    can_hold_labs: None, lab_base: Path
) -> None:
    before = machine_state()
    spec = sized(observe(), nodes=2)
    names = [f"side{index}" for index in range(5)]

    def cycle(name: str) -> list[str]:
        lab = lifecycle.up(spec, name=name, base=lab_base)
        seen = traces(lab)
        job = run(lab, ["srun", "-N2", "--job-name", name, "squeue", "-h", "-o", "%j"])
        assert job.stdout.split() == [name, name], job.stderr
        lifecycle.down(name=name, base=lab_base)
        return remaining(seen, lab.layout.run_dir)

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(cycle, names)) == [[]] * 5
    assert machine_state() == before


def test_a_node_without_power_goes_down_and_comes_back_empty(make_lab: MakeLab) -> None:
    # MessageTimeout is what the first unanswered ping costs: Slurm's own 10 s would be most of it.
    lab = make_lab(nodes=2, slurmd_timeout_s=2, extra_conf=["MessageTimeout=3"])
    run(lab, ["touch", "/tmp/mark", "/dev/shm/mark"], node="n1")
    lifecycle.kill_node(lab, "n1")
    with pytest.raises(UsageError, match="off already"):
        lifecycle.kill_node(lab, "n1")
    with pytest.raises(DeadlineError, match="boot-node n1"):
        run(lab, ["true"], node="n1")
    assert not labs.status(lab).healthy
    wait_for_state(lab, "n1", "down")
    assert run(lab, ["srun", "-N1", "hostname"]).stdout == "n0\n"

    assert lifecycle.boot_node(lab, "n1")
    assert not lifecycle.boot_node(lab, "n1")
    found = run(lab, ["ls", "/tmp/mark", "/dev/shm/mark"], node="n1")
    assert found.stdout == ""
    both = run(lab, ["srun", "-N2", "hostname"])
    assert sorted(both.stdout.split()) == ["n0", "n1"], both.stderr


def test_a_lab_whose_first_process_was_killed_is_down_and_can_come_up_again(
    make_lab: MakeLab, lab_base: Path
) -> None:
    lab = make_lab(nodes=1, name="killed")
    seen = traces(lab)
    os.kill(lab.holder.login, 9)
    assert wait_until(lambda: process(lab.holder.outer) is None, timeout_s=5)
    assert remaining(seen, lab.layout.run_dir) == []
    with pytest.raises(UsageError, match="lab killed is not up"):
        labs.find("killed", base=lab_base)
    again = make_lab(nodes=1, name="killed")
    assert run(again, ["srun", "hostname"]).stdout == "n0\n"


def test_a_lab_that_cannot_come_up_says_why_and_leaves_no_process(
    can_hold_labs: None, lab_base: Path
) -> None:
    spec = sized(observe(), nodes=1, extra_conf=["NoSuchKey=1"])
    with pytest.raises(DeadlineError, match="slurmctld") as failed:
        lifecycle.up(spec, name="broken", base=lab_base)
    assert failed.value.exit_code == 4
    assert "see the logs in" in str(failed.value)
    with pytest.raises(UsageError, match="not up"):
        labs.find("broken", base=lab_base)
    assert (lab_base / "broken" / "log").is_dir()
    lifecycle.down(name="broken", base=lab_base)
    assert not (lab_base / "broken").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_one_clear_message(can_hold_labs: None, lab_base: Path) -> None:
    disk = lab_base / "disk"
    script = f"""
set -e
mkdir {disk}
mount -t tmpfs -o size=8k tmpfs {disk}
export CLUSTERLAB_LABS={disk}
{sys.executable} -c '{CLUSTERLAB}' lab up --nodes 1 --name full
"""
    found = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 1, found.stdout + found.stderr
    disk.rmdir()
    said = f"clusterlab: {disk}/full"
    assert found.stderr.splitlines()[-1].startswith(said), found.stderr
    assert "cannot be written: No space left on device; set CLUSTERLAB_LABS" in found.stderr
    assert found.returncode == 1


def test_a_missing_pmix_link_is_mended_inside_the_lab_only(
    can_hold_labs: None, tmp_path: Path
) -> None:
    """On a machine (a mount namespace) whose PMIx library directory lacks the link."""
    folder = next(Path("/usr/lib").glob("*/pmix2/lib"), None)
    if folder is None or os.geteuid() != 0:
        refuse("needs root and Debian's PMIx")
    assert folder is not None
    bare = tmp_path / "lib"
    shutil.copytree(folder, bare, symlinks=True)
    (bare / "libpmix.so").unlink(missing_ok=True)
    script = f"""
set -e
mount --bind {bare} {folder}
export CLUSTERLAB_LABS=$(mktemp -d /tmp/cl-XXXXXX)
lab() {{ {sys.executable} -c '{CLUSTERLAB}' lab "$@"; }}
lab doctor --flat || echo "flat status $?"
lab up --nodes 2 --share {tmp_path} >/dev/null
lab exec -- srun -N2 --mpi=pmix {sys.executable} -S {Path(__file__).parent}/pmix_client.py
lab down
rmdir "$CLUSTERLAB_LABS" 2>/dev/null || true
ls {folder}
"""
    found = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert f"ln -sfn libpmix.so.2 {folder}/libpmix.so" in " ".join(lines)
    assert "flat status 1" in lines
    assert {"0 0@n0 1@n1", "1 0@n0 1@n1"} <= set(lines)
    assert "libpmix.so" not in lines


def test_the_commands_of_a_session_work_and_say_what_they_did(
    can_hold_labs: None, tmp_path: Path, lab_base: Path
) -> None:
    environment = {**os.environ, "CLUSTERLAB_LABS": str(lab_base)}

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", CLUSTERLAB, "lab", *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    name = ("--name", "cli")
    absent = lab("status", *name)
    assert (absent.stdout.splitlines()[0], absent.returncode) == ("lab cli: not up", 1)
    up = lab("up", "--nodes", "2", "--gpus", "4", *name)
    assert up.returncode == 0, up.stderr
    assert up.stdout.startswith("lab cli: 2 nodes × 4 pretend GPUs idle after ")
    assert "2 of 2 nodes idle" in up.stderr
    ran = lab("exec", *name, "--node", "n1", "--", "sh", "-c", "hostname; pwd; exit 6")
    assert (ran.stdout.split(), ran.returncode) == (["n1", str(tmp_path)], 6)
    now = json.loads(lab("status", "--json", *name).stdout)
    assert now["healthy"]
    assert [node["state"] for node in now["nodes"]] == ["idle", "idle"]
    assert lab("kill-node", "n0", *name).stdout.startswith("n0 is off")
    off = lab("status", *name)
    assert off.returncode == 1
    assert "off" in off.stdout
    assert lab("boot-node", "n0", *name).stdout.startswith("n0 serves after ")
    assert lab("down", *name).stdout.startswith("lab cli: down after ")
    assert lab("down", *name).stdout == "lab cli: was not up\n"
