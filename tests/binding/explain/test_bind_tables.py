"""Predictions against what a real Slurm 22.05.8 gave every task of 273 invocations."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.binding.explain.bind_tables import invocations, predicted, wrong_tasks
from tests.support import shared_dir

# What is not foreseen: the order of a hostfile that is no part of the command line (8 tasks), and which
# of two steps started in the background at once is first (4 tasks).
FLOORS = {"plain": 0.995, "constrain_devices": 1.0}


SAMPLE = Path(__file__).parents[2] / "data/binding/slurm_22_05_tasks.csv"


def test_a_sample_of_both_tables_is_as_predicted() -> None:
    for invocation in invocations(SAMPLE):
        found = predicted(invocation, constrain_devices=invocation.rows[0]["table"] != "plain")
        if invocation.rejected:
            assert found.rejected is not None
        else:
            assert list(wrong_tasks(invocation, found)) == []


@pytest.mark.parametrize("table", FLOORS)
def test_nodes_masks_and_cores_are_those_that_slurm_gave(table: str) -> None:
    right, total = Counter[str](), Counter[str]()
    for invocation in invocations(shared_dir() / "cases/bind_tables" / f"{table}.csv"):
        if invocation.rejected:
            continue
        found = predicted(invocation, constrain_devices=table != "plain")
        wrong = list(wrong_tasks(invocation, found))
        total[invocation.group] += len(invocation.rows)
        right[invocation.group] += len(invocation.rows) - len(wrong)
        if wrong:
            print(f"{table}: {invocation.group}/{invocation.label}: {len(wrong)} tasks wrong")
    for group in total:
        print(f"{table}: {group}: {right[group]}/{total[group]}")
    share = right.total() / total.total()
    print(f"{table}: {share:.2%} of {total.total()} tasks")
    assert share >= FLOORS[table]


@pytest.mark.parametrize("table", FLOORS)
def test_refusals_are_foreseen_with_slurms_own_words(table: str) -> None:
    for invocation in invocations(shared_dir() / "cases/bind_tables" / f"{table}.csv"):
        if not invocation.rejected:
            continue
        found = predicted(invocation, constrain_devices=table != "plain")
        measured = invocation.rows[0]["stderr"].splitlines()[0]
        assert found.tasks == ()
        assert found.rejected is not None, invocation.lines
        assert found.rejected.splitlines()[0] == re.sub(r"for job [0-9]+", "for job", measured)


@pytest.mark.parametrize("table", FLOORS)
def test_step_gpus_is_what_slurm_says_even_where_it_is_wrong(table: str) -> None:
    wrong = total = 0
    for invocation in invocations(shared_dir() / "cases/bind_tables" / f"{table}.csv"):
        found = predicted(invocation, constrain_devices=table != "plain")
        tasks = {(task.step, task.procid): task for task in found.tasks}
        for row in invocation.rows:
            task = tasks.get((int(row["step"] or 0), int(row["procid"] or 0)))
            if task is not None and row["procid"]:
                total += 1
                wrong += (task.step_gpus or "") != row["SLURM_STEP_GPUS"]
    print(f"{table}: SLURM_STEP_GPUS of {total - wrong}/{total} tasks")
    assert wrong <= total // 100
