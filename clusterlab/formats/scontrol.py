"""What ``scontrol show job`` and ``squeue`` print, as plain data.

Slurm's text is ``Key=Value`` words, values unquoted (Slurm's src/api/job_info.c). Two of them are free
text that may hold anything, ``=`` and spaces included: JobName near the front, and Comment, Command and
paths at the end. So a job's name is cut out first, and of a repeated key the first counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

_RECORD = re.compile(r"^JobId=", re.MULTILINE)
_NAME = re.compile(r"\sJobName=(.*?)\s+UserId=\S*\(\d+\)\s", re.DOTALL)
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*(?:[/:][A-Za-z:]+)?)=")
_EXIT = re.compile(r"(\d+):(\d+)")

OVER = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
)
"""States that a job does not leave again (squeue(1), JOB STATE CODES)."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job. ``state`` in capitals, without flags; ``reason`` None where Slurm has none.

    ``exit_status`` and ``exit_signal`` are of the batch script, None where Slurm does not tell;
    ``fields`` holds every key as printed (squeue prints a few only).
    """

    job_id: str
    state: str
    reason: str | None = None
    nodes: str | None = None
    exit_status: int | None = None
    exit_signal: int | None = None
    restarts: int = 0
    name: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether it has ended for good; a node without power can keep the rest of it completing."""
        return self.state in OVER or (self.state, self.reason) == ("COMPLETING", "NonZeroExitCode")


def parse_jobs(text: str) -> list[JobRecord]:
    """The jobs in the output of ``scontrol show job``, with or without ``--oneliner``.

    Anything that is not a job (``No jobs in the system``) is passed over.
    """
    starts = [m.start() for m in _RECORD.finditer(text)]
    return [_job(text[a:b]) for a, b in pairwise([*starts, len(text)])]


def _job(text: str) -> JobRecord:
    name = _NAME.search(text)
    if name:
        text = text[: name.start(1)] + text[name.end(1) :]
    marks = list(_KEY.finditer(text))
    ends = [*(m.start() for m in marks[1:]), len(text)]
    fields: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        fields.setdefault(mark.group(1), text[mark.end() : end].strip())
    if name:
        fields["JobName"] = name.group(1)
    ended = _EXIT.fullmatch(fields.get("ExitCode", ""))
    return JobRecord(
        job_id=fields["JobId"],
        state=_state(fields.get("JobState", "")),
        reason=_known(fields.get("Reason", "")),
        nodes=_known(fields.get("NodeList", "")),
        exit_status=int(ended.group(1)) if ended else None,
        exit_signal=int(ended.group(2)) if ended else None,
        restarts=int(fields["Restarts"]) if fields.get("Restarts", "").isdecimal() else 0,
        name=fields.get("JobName", ""),
        fields=fields,
    )


SQUEUE_FORMAT = "%A|%T|%N|%r"
"""``squeue --noheader --format`` that ``parse_squeue`` reads. The reason, free text, comes last."""


def parse_squeue(text: str) -> list[JobRecord]:
    """The jobs in the output of squeue with SQUEUE_FORMAT; other lines are passed over."""
    jobs = []
    for line in text.splitlines():
        words = line.split("|", 3)
        if len(words) == 4 and words[0].strip().isdecimal():
            job_id, state, nodes, reason = (w.strip() for w in words)
            jobs.append(JobRecord(job_id, _state(state), _known(reason), _known(nodes)))
    return jobs


def _state(text: str) -> str:
    """The state alone: ``CANCELLED by 1000`` and ``RUNNING,COMPLETING`` carry more."""
    words = re.split(r"[,+ ]", text.strip().upper())
    return words[0] or "UNKNOWN"


def _known(text: str) -> str | None:
    return None if text in ("", "(null)", "None", "N/A") else text
