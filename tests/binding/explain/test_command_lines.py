"""Command lines as getopt and the shell take them apart, and lines nobody would write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.binding.explain.command_line import read_command_lines
from clusterlab.core.errors import UsageError
from tests.binding.explain.ask import ask


def test_options_end_where_the_program_begins() -> None:
    (line,) = read_command_lines("srun -N2 -n 4 --gres gpu:2 python -n 8 --gres=x", where="x")
    assert dict(line.options) == {"nodes": "2", "ntasks": "4", "gres": "gpu:2"}
    assert line.program == ("python", "-n", "8", "--gres=x")


def test_letters_run_together_and_names_cut_short() -> None:
    (line,) = read_command_lines("A=1 /usr/bin/srun -lN2 --ntasks-per-n=4 --exclusive x", where="x")
    assert line.environ == {"A": "1"}
    assert line.options == (
        ("label", None),
        ("nodes", "2"),
        ("ntasks-per-node", "4"),
        ("exclusive", None),
    )


@pytest.mark.parametrize(
    ("text", "background", "waited"),
    [
        ("srun a & srun b & wait", [True, True], [False, False]),
        ("srun a &\nsrun b &\nwait\nsrun c", [True, True, False], [False, False, True]),
        ("srun & -n2 --exact ; srun & -n2", [True, True], [False, False]),
        ("srun a && srun b ; srun c", [False] * 3, [False] * 3),
        ("srun a > log 2>&1 ; srun b &> log", [False] * 2, [False] * 2),
        ("srun -n2 \\\n  a", [False], [False]),
        ("A=1 srun a & B=2 srun b", [True, False], [False, False]),
    ],
)
def test_several_commands_are_cut_as_a_shell_does(
    text: str, background: list[bool], waited: list[bool]
) -> None:
    lines = read_command_lines(text, where="x")
    assert [line.background for line in lines] == background
    assert [line.waited for line in lines] == waited


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("srun --gpu-per-task=1", "srun: unrecognized option '--gpu-per-task'"),
        ("srun --gpus-per=1", "srun: option '--gpus-per' is ambiguous"),
        ("srun -n x", 'srun: error: Invalid numeric value "x" for --ntasks.'),
        ("srun --gpu-bind=nearest", None),
        ("srun --gpu-bind=fast", "srun: error: Invalid --gpu-bind argument: gpu:fast"),
        ("srun -n2 --gpu-bind=map_gpu:0x1", "offending character is x"),
        ("sbatch --cpu-bind=cores", "sbatch: unrecognized option '--cpu-bind'"),
        ("srun -n9 --ntasks-per-gpu=2", "-n/--ntasks has to be a multiple of --ntasks-per-gpu."),
        ("srun -N1 --ntasks-per-node=2 --ntasks-per-gpu=1", "mutually exclusive"),
    ],
)
def test_slurm_refuses_in_its_own_words(line: str, says: str | None) -> None:
    rejected = ask(line).rejected
    assert (rejected is None) if says is None else (rejected is not None and says in rejected)


_OPTIONS = [
    "-N", "-n", "-c", "--ntasks-per-node=", "--gpus=", "--gpus-per-node=", "--gpus-per-task=",
    "--gpus-per-socket=", "--gres=", "--gpu-bind=", "--tres-bind=", "--ntasks-per-gpu=", "--cpu-bind=",
    "--cpus-per-gpu=", "-m", "--exclusive", "--overlap", "--hint=", "--threads-per-core=", "-w", "-x",
    "--gres-flags=", "--exact", "--overcommit", "--ntasks-per-socket=", "--ntasks-per-core=",
    "--sockets-per-node=", "-B", "-r", "--tres-per-task=", "--accel-bind=", "--mincpus=",
]  # fmt: skip
_VALUES = [
    "", "0", "1", "2", "3", "8", "17", "1-2", "n0", "n[1-2]", "gpu:2", "gpu:h100:3", "none", "closest",
    "single:2", "per_task:1", "map_gpu:0,9", "mask_gpu:0xff*2,10", "gres/gpu:map:1,0", "cores", "sockets",
    "rank", "map_cpu:0,99", "mask_cpu:0x3", "block:cyclic", "plane=3", "plane", "arbitrary", "cyclic,pack",
    "nomultithread", "compute_bound", "enforce-binding", "allow-task-sharing", "*", "2:4:1", "-1", "999999",
    "é", "cpu:2", "1k",
]  # fmt: skip
_WORDS = st.lists(
    st.builds(str.__add__, st.sampled_from(_OPTIONS), st.sampled_from(_VALUES)), max_size=6
)


@settings(max_examples=400, deadline=None)
@given(
    command=st.sampled_from(["srun", "sbatch", "salloc"]),
    job=_WORDS,
    steps=st.lists(_WORDS, max_size=2),
    constrain_devices=st.booleans(),
    version=st.sampled_from(["22.05", "23.11", "26.05"]),
)
def test_any_options_end_in_tasks_a_refusal_or_a_clear_error(
    command: str, job: list[str], steps: list[list[str]], constrain_devices: bool, version: str
) -> None:
    lines = [] if command == "srun" else [" ".join(["srun", *step, "x"]) for step in steps]
    submit = " ".join([command, *job, "x"])
    try:
        found = ask(submit, *lines, constrain_devices=constrain_devices, version=version)
    except UsageError:
        return
    for task in found.tasks:
        assert set(task.gpus) <= set(range(8))
        assert task.cpus == "" or {int(cpu) for cpu in task.cpus.split(",")} <= set(range(16))
    ids = [(task.step, task.procid) for task in found.tasks]
    assert len(set(ids)) == len(ids)
    assert found.tasks or found.rejected or command != "srun"


@pytest.mark.parametrize(
    "line",
    [
        "srun -n2 --cpu-bind=map_cpu:0*99999999",
        "srun -n2 --cpu-bind=mask_cpu:0x" + "f" * 60 + "*9",
        "srun -n2 -m plane=99999999999",
        "srun -n2 -w n[0-65535]",
        "srun -N1-99999999999",
        "srun -n2 --gres=gpu:99999999999999999999",
        "srun -n2 --gpu-bind=map_gpu:0*99999999999",
        "srun -n2 --gpu-bind=single:99999999999999999999",
        "srun -n2 --gpu-bind=mask_gpu:0x" + "f" * 5000,
        "srun " + "-n2 " * 5000,
    ],
)
def test_absurd_numbers_are_answered_at_once(line: str) -> None:
    found = ask(line)
    assert found.tasks or found.rejected


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="srun -n2N;&\n'\"\\=gpu:0-9,é\0>|$()", max_size=40))
def test_any_text_ends_in_an_answer_or_a_clear_error(text: str) -> None:
    try:
        found = ask("srun " + text)
    except UsageError:
        return
    assert found.tasks or found.rejected
