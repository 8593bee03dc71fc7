"""A false alarm is a bug: measured healthy Slurm steps and a thousand healthy placements are silent."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.records import read_record
from clusterlab.core.findings import Finding, Severity
from tests.binding.diagnose import bind_table
from tests.binding.diagnose.placements import healthy_placement
from tests.support import shared_dir


def loud(findings: Sequence[Finding]) -> list[str]:
    return [f"{f.code}: {f.evidence[0]}" for f in findings if f.severity is not Severity.INFO]


def test_every_measured_step_with_a_gpu_of_its_own_for_each_rank_is_silent() -> None:
    """Healthy cores are required only where cores are in the record: Slurm's default binding often has none
    near the GPU, and then to say so is right."""
    healthy = with_cores = 0
    for step in bind_table.steps(shared_dir() / "cases" / "bind_tables"):
        record = bind_table.record_of(step)
        if not step.clean or not bind_table.gpus_healthy(record):
            continue
        healthy += 1
        if bind_table.cores_healthy(record):
            with_cores += 1
        else:
            record = bind_table.without_cores(record)
        assert loud(diagnose(record)) == [], step.name
    assert healthy >= 150 and with_cores >= 50


def test_most_measured_steps_that_share_or_lack_gpus_are_not_silent() -> None:
    judged = noticed = 0
    for step in bind_table.steps(shared_dir() / "cases" / "bind_tables"):
        record = bind_table.record_of(step)
        if not record.ranks or bind_table.gpus_healthy(record):
            continue
        judged += 1
        noticed += bool(loud(diagnose(record)))
    assert judged >= 80 and noticed >= 0.95 * judged


def test_a_thousand_healthy_placements_of_all_profiles_are_silent() -> None:
    for seed in range(1000):
        record = read_record(healthy_placement(seed), file=f"placement {seed}")
        assert loud(diagnose(record)) == [], seed
