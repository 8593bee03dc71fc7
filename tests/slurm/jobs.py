"""Submit job files in a lab and wait for their end."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.rows import Row
from clusterlab.core.shipped import shipped
from clusterlab.lab.labs import Lab, run
from clusterlab.records.run_dir import RunDir, open_run
from clusterlab.records.store import read_records

RUNNING = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED")


@dataclass(frozen=True)
class Submitted:
    """A job in a lab, its folder and the environment its commands get."""

    lab: Lab
    folder: Path
    environment: dict[str, str]
    job_id: int

    def show(self) -> dict[str, str]:
        done = run(self.lab, ["scontrol", "show", "job", "-o", str(self.job_id)])
        return dict(re.findall(r"(\w+)=(\S*)", done.stdout))

    def output(self) -> str:
        return "".join(p.read_text() for p in sorted(self.folder.glob("*.out")))

    def wait(self, *, timeout_s: float = 170) -> dict[str, str]:
        """Wait for the job's end; what Slurm says of it then."""
        end = time.monotonic() + timeout_s
        while True:
            shown = self.show()
            if shown.get("JobState") not in RUNNING:
                return shown
            assert time.monotonic() < end, f"{shown}\n{self.output()}"
            time.sleep(0.2)

    def exit_code(self) -> int:
        """The batch script's exit code once the job has ended."""
        code, signal = self.wait()["ExitCode"].split(":")
        return int(code) or (128 + int(signal) if int(signal) else 0)

    def run_dir(self) -> RunDir:
        (only,) = (self.folder / "runs").iterdir()
        return open_run(only)

    def rows(self) -> tuple[Row, ...]:
        return read_records(self.run_dir().path).rows

    def wait_for_rows(self, count: int, *, timeout_s: float = 120) -> None:
        end = time.monotonic() + timeout_s
        while True:
            files = list((self.folder / "runs").glob("*/records.jsonl"))
            if files and files[0].read_bytes().count(b"\n") >= count:
                return
            assert time.monotonic() < end, f"{self.show()}\n{self.output()}"
            time.sleep(0.1)

    def ranks(self) -> list[int]:
        """Pids on this machine of the job's ranks."""
        return sorted(self._pids().values())

    def pid_of_rank(self, rank: int) -> int:
        """The pid on this machine of one of the job's ranks, which PMIx numbers."""
        return self._pids()[rank]

    def _pids(self) -> dict[int, int]:
        found = {}
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                words = (proc / "environ").read_bytes().split(b"\0")
                command = (proc / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            mine = f"CLUSTERLAB_RUNS={self.folder}/runs".encode() in words
            is_task = any(w.startswith((b"PMIX_RANK=", b"TORCHELASTIC_RUN_ID=")) for w in words)
            rank = b"bench" in command and b"srun" not in command and b"exec" not in command
            if mine and is_task and rank:
                names = dict(word.split(b"=", 1) for word in words if b"=" in word)
                # torchrun's workers all have their agent's PMIX_RANK.
                which = b"RANK" if b"TORCHELASTIC_RUN_ID" in names else b"PMIX_RANK"
                found[int(names[which])] = int(proc.name)
        return found


def program() -> str:
    """The clusterlab of this Python."""
    return str(Path(sys.executable).with_name("clusterlab"))


def submit(
    lab: Lab,
    folder: Path,
    job: str,
    *arguments: str,
    options: tuple[str, ...] = (),
    **environment: str,
) -> Submitted:
    """``sbatch OPTIONS jobs/JOB.sbatch ARGUMENTS`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = {
        "CLUSTERLAB": program(),
        "CLUSTERLAB_RUNS": str(folder / "runs"),
        **environment,
    }
    file = shipped("jobs") / f"{job}.sbatch"
    done = run(lab, ["sbatch", *options, str(file), *arguments], cwd=folder, env=mine)
    assert done.returncode == 0, done.stderr
    return Submitted(lab, folder, mine, int(done.stdout.split()[-1]))
