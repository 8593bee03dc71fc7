"""The headline: the gravest thing first, its reason, and a command that exists."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.findings import Finding, Severity, Verdict
from clusterlab.core.rows import Row
from clusterlab.core.stepping import StepLine
from clusterlab.verdict.headline import About, headline
from clusterlab.verdict.headline_type import Headline
from clusterlab.verdict.run_verdict import judge_run
from clusterlab.verdict.why.types import Hypothesis, TableAnswer
from tests.records.fake_runs import fake_rows, points, renamed

TYPED = ("clusterlab", "bench", "all_reduce", "-g", "4")
ABOUT = About("RUN", TYPED, "gloo", 4)
GOOD = fake_rows(points(["all_reduce", "reduce"]))
SLOW = [
    renamed(r, time_us_loop=3 * r.time_us_loop) if r.collective == "reduce" else r for r in GOOD
]
FAST = [renamed(r, time_us_loop=r.time_us_loop / 3) for r in GOOD]
WRONG = [renamed(GOOD[0], wrong=2, wrong_rank=3, wrong_index=9), *GOOD[1:]]
UNKNOWN = fake_rows(points(["all_reduce"]), interval=False)
WARNING = Finding("SLOW_LINK", Severity.WARNING, ("a to b is slow",), "look at the cable")
ERROR = Finding("ENDED_EARLY", Severity.FATAL, ("rank 3 died",), "see its log")
ANSWER = TableAnswer(
    "all_gather",
    Verdict.SLOW,
    "slow",
    (Hypothesis("P2P_DISABLED", 0.9, "evidence", "nvidia-smi topo -p2p r"),),
    {"plateau": (4.0, 1.2), "small": (1.1, 1.2)},
)


def said(
    rows: list[Row],
    about: About = ABOUT,
    findings: tuple[Finding, ...] = (),
    answers: tuple[TableAnswer, ...] = (),
    planned: int | None = None,
) -> Headline:
    run = judge_run(rows, planned_points=planned)
    return headline(run.judged, run, about, rows=rows, findings=findings, answers=answers)


def test_wrong_data_outranks_everything_and_says_where() -> None:
    found = said(WRONG, findings=(ERROR, WARNING), answers=(ANSWER,))
    assert found.verdict == Verdict.INVALID
    assert "rank 3" in found.worst
    assert "element 9" in found.worst
    assert found.command == f"{shlex.join(TYPED)} --pattern halves --keep-going"
    assert "halves" not in said(WRONG, replace(ABOUT, world_size=2)).command


def test_what_ended_a_run_outranks_what_is_slow_and_that_a_warning() -> None:
    assert said(SLOW, findings=(WARNING, ERROR)).worst == "Ended early: rank 3 died"
    assert said(GOOD, findings=(WARNING,)).advice == "look at the cable"
    assert said(GOOD, findings=(WARNING,)).finding == "warning: slow link"
    assert said(SLOW, findings=(WARNING,), answers=(ANSWER,)).worst.startswith(
        "all_gather takes 4 times"
    )


def test_the_cause_that_why_finds_is_the_reason_and_why_what_to_type() -> None:
    found = said(UNKNOWN, replace(ABOUT, backend="nccl"), answers=(ANSWER,))
    assert found.verdict == Verdict.SLOW
    assert found.by_why
    assert "at the largest sizes" in found.worst
    assert found.reason.startswith("P2P_DISABLED (90%): GPU-to-GPU peer access off")
    assert found.command == "clusterlab why RUN"
    assert found.advice == "nvidia-smi topo -p2p r"
    assert not said(SLOW, answers=(ANSWER,)).by_why


@pytest.mark.parametrize(
    ("variant", "evidence", "without"),
    [
        ("NCCL_PROTO=LL", "", "NCCL_PROTO"),
        ("NCCL_ALGO=Tree, NCCL_PROTO=LL", "", "NCCL_PROTO"),
        ("peers off", "the run itself says NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE"),
        ("2 channels", "", None),
        ("NCCL_MAX_NCHANNELS=2", "", None),
    ],
)
def test_what_the_run_itself_set_is_taken_away_by_the_next_command(
    variant: str, evidence: str, without: str | None
) -> None:
    about = replace(ABOUT, environment={"NCCL_PROTO": "LL", "NCCL_P2P_DISABLE": "1", "HOME": "/"})
    one = replace(ANSWER.hypotheses[0], variant=variant, evidence=evidence)
    found = said(UNKNOWN, about, answers=(replace(ANSWER, hypotheses=(one,)),))
    if without is None:
        assert found.command == "clusterlab why RUN"
    else:
        assert found.command == f"env -u {without} {shlex.join(TYPED)}"
        assert f"the run set {without}={about.environment[without]}" in found.reason


def test_a_slow_group_heads_what_may_make_it_slow_and_is_measured_alone_next() -> None:
    link = Finding(
        "SLOW_LINK", Severity.WARNING, ("a ↔ b: 2 of 2", "nothing tells it from c"), "look"
    )
    group = Finding("SLOW_GROUP", Severity.WARNING, ("rail 1, at all sizes",), "repeat it")
    found = said(GOOD, findings=(link, group))
    assert found.worst == "Slow group: rail 1, at all sizes"
    assert found.reason == "slow link: a ↔ b, or what shares its path"
    assert found.command == f"{shlex.join(TYPED)} --one-by-one"
    assert found.advice == "repeat it"
    alone = said(GOOD, findings=(link,))
    assert (alone.worst, alone.reason) == ("Slow link: a ↔ b: 2 of 2", "nothing tells it from c")
    again = replace(ABOUT, command=(*TYPED, "--one-by-one"))
    assert said(GOOD, again, findings=(group,)).command == ""


def test_all_that_is_slow_is_named_as_far_as_a_sentence_goes() -> None:
    others = tuple(replace(ANSWER, table_id=f"table{i}", slowdown={}) for i in range(5))
    worst = said(UNKNOWN, answers=(ANSWER, *others)).worst
    assert worst.endswith("(slow too: table0, table1, table2 and 2 more)")


def test_a_slow_collective_is_named_with_its_worst_size_and_noise_is_a_reason() -> None:
    assert said(SLOW).worst.startswith("reduce takes ")
    assert said(SLOW).command == "clusterlab doctor"
    assert said(SLOW, replace(ABOUT, backend="nccl")).command == "clusterlab why RUN"
    noisy = said(SLOW, replace(ABOUT, noisy="everything stands out"))
    assert "everything stands out" in noisy.reason
    assert noisy.command.endswith("-n auto")


@pytest.mark.parametrize(
    ("rows", "planned", "command"),
    [
        (UNKNOWN, None, "clusterlab self-calibrate"),
        (
            fake_rows(points(["all_reduce"]), predicted=False),
            None,
            f"{shlex.join(TYPED)} --fabric NAME",
        ),
        (GOOD, 99, "clusterlab resume RUN"),
        ([], None, shlex.join(TYPED)),
        (FAST, None, "clusterlab self-calibrate"),
        (GOOD, None, "clusterlab baseline save RUN -o base.yaml"),
    ],
    ids=["no interval", "no prediction", "missing", "nothing", "fast", "pass"],
)
def test_every_verdict_says_what_next(rows: list[Row], planned: int | None, command: str) -> None:
    assert said(rows, planned=planned).command == command


def test_a_training_names_what_takes_most() -> None:
    step = StepLine(0, 1, "2026-11-29T21:54:00Z", 4.25, 10_000, 1, 0, 2000, 3000, {"tp": 4500}, 0, 500,
                    0, 3 << 20, 7, predicted_us=5000.0)  # fmt: skip
    run = judge_run([])
    found = headline(run.judged, run, ABOUT, steps=[step, replace(step, step=1)])
    assert "10 ms, and 45% of it goes to exposed communication along tp" in found.worst
    assert "2 times its prediction" in found.worst


@given(
    rows=st.sampled_from([GOOD, SLOW, FAST, WRONG, UNKNOWN, []]),
    findings=st.lists(st.sampled_from([WARNING, ERROR]), max_size=2),
    answers=st.lists(
        st.sampled_from([ANSWER, TableAnswer("x", Verdict.PASS, "as usual")]), max_size=2
    ),
    backend=st.sampled_from(["gloo", "nccl"]),
    noisy=st.sampled_from(["", "busy"]),
)
@settings(max_examples=150, deadline=None)
def test_every_run_has_one_sentence_and_a_next_step(
    rows: list[Row], findings: list[Finding], answers: list[TableAnswer], backend: str, noisy: str
) -> None:
    about = About("RUN", TYPED, backend, 4, noisy)
    found = said(rows, about, tuple(findings), tuple(answers))
    assert found.sentence.endswith(".")
    assert ".." not in found.sentence
    assert "\n" not in found.sentence
    assert found.command or found.advice
    wrong_or_slow = {Verdict.INVALID, Verdict.SLOW}
    run = judge_run(rows)
    if run.judged.verdict in wrong_or_slow:
        assert found.verdict == run.judged.verdict
