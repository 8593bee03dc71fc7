"""``why`` over files and run directories."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.cost.scoring.asked import Asked
from clusterlab.runs.explaining.run import tables_of_run
from clusterlab.runs.explaining.text import tables_of_file
from clusterlab.runs.explaining.why import WhyOptions, WhyReport, answer, why
from clusterlab.topology.opening import open_fabric
from clusterlab.verdict.why.types import TableAnswer
from tests.cli.test_unfit_rows import DAMAGES, damaged
from tests.runs.why_runs import SIZES, why_run
from tests.support import shared_dir
from tests.verdict.why.systems import at_most, changed, points_of

COLUMNS = (
    "table_id", "system", "gpu", "n_nodes", "gpus_per_node", "n_ranks", "intra_fabric",
    "inter_fabric", "collective", "dtype", "in_place", "size_bytes", "time_us", "nccl_version",
    "algo", "proto", "notes", "health", "cause_code",
)  # fmt: skip


def csv_of(
    path: Path, tables: dict[str, list], labels: Callable[[int], tuple[str, str, str]]
) -> Path:  # type: ignore[type-arg]
    rows = []
    for name, points in tables.items():
        for p in points:
            notes, health, cause = labels(len(rows))
            rows.append(
                (name, p.system, p.gpu, p.n_nodes, p.gpus_per_node, p.n_ranks, p.intra_fabric,
                 p.inter_fabric, p.collective, p.dtype, int(bool(p.in_place)), p.size_bytes,
                 p.time_us, "", p.algo, p.proto, notes, health, cause)
            )  # fmt: skip
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([COLUMNS, *rows])
    return path


def run(path: Path, **options: str) -> WhyReport:
    return why(WhyOptions(path, **options))  # type: ignore[arg-type]


SLOW = changed(points_of("h100-8"), at_most(8.0, 1.75, 30.0))
FINE = changed(points_of("h100-2x8"), lambda _, t: t)


def test_what_people_judged_of_a_table_is_not_read(tmp_path: Path) -> None:
    words = ["healthy", "unhealthy", "unknown", "", "P2P_DISABLED", "NVLS_OFF", "nonsense"]

    def scrambled(seed: int) -> Callable[[int], tuple[str, str, str]]:
        draw = random.Random(seed)
        return lambda _: (draw.choice(words), draw.choice(words), draw.choice(words))

    tables = {"slow": SLOW, "fine": FINE}
    plain = run(csv_of(tmp_path / "a.csv", tables, lambda _: ("", "", "")))
    assert [a.verdict for a in plain.answers] == [Verdict.SLOW, Verdict.PASS]
    for seed in (1, 2):
        other = run(csv_of(tmp_path / f"{seed}.csv", tables, scrambled(seed)))
        assert other.to_json() == plain.to_json()
    labelled = {"slow": ("", "healthy", "TCP_FALLBACK"), "fine": ("", "unhealthy", "NVLS_OFF")}
    lying = csv_of(
        tmp_path / "l.csv", tables, lambda i: labelled["slow" if i < len(SLOW) else "fine"]
    )
    assert run(lying).to_json() == plain.to_json()


def test_published_labels_do_not_matter() -> None:
    path = shared_dir() / "measured" / "published_nccl_tests.csv"
    if not path.exists():
        pytest.skip(f"no {path}")
    tables, _ = tables_of_file(path, None, Asked())
    with path.open(newline="") as stream:
        names = {row["table_id"] for row in csv.DictReader(stream)}
    assert {t.name for t in tables} == names  # unhealthy ones too


def test_one_table_of_several_and_the_nearest_name(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", {"slow-box": SLOW, "fine-box": FINE}, lambda _: ("", "", ""))
    report = run(path, table="fine-box")
    assert [a.table_id for a in report.answers] == ["fine-box"]
    assert report.exit_code == ExitCode.OK
    with pytest.raises(UsageError, match="did you mean 'slow-box'"):
        run(path, table="slowbox")


def test_a_table_of_several_collectives_is_several_curves(tmp_path: Path) -> None:
    both = [*points_of("h100-8"), *points_of("h100-8", "all_gather")]
    report = run(csv_of(tmp_path / "a.csv", {"box": both}, lambda _: ("", "", "")))
    assert [a.table_id for a in report.answers] == ["box (all_reduce)", "box (all_gather)"]
    assert len(run(tmp_path / "a.csv", table="box").answers) == 2


def test_a_table_without_times_is_no_pass(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", {"fine": FINE, "empty": FINE}, lambda _: ("", "", ""))
    text = path.read_text().splitlines()
    cut = [
        ",".join("" if i == COLUMNS.index("time_us") else c for i, c in enumerate(line.split(",")))
        if line.startswith("empty")
        else line
        for line in text
    ]
    path.write_text("\n".join(cut))
    report = run(path)
    assert [a.verdict for a in report.answers] == [Verdict.PASS, Verdict.NO_VERDICT]
    assert "none of 31 rows has a time" in report.answers[1].reason
    assert report.exit_code == ExitCode.NO_VERDICT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        (",".join(COLUMNS) + "\n", "no rows"),
        ("system,collective,n_ranks,size_bytes,time_us\nx,all_reduce,8,many,1\n", "size_bytes"),
        ("hello\n", "measure|table|nothing"),
    ],
)
def test_what_cannot_be_read_is_one_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        run(path)
    with pytest.raises(UsageError, match=r"cannot be read|no such"):
        run(tmp_path / "not-there")


# --- run directories


def healthy_times() -> dict[int, float]:
    """Two H200 as nccl-tests measured them."""
    path = shared_dir() / "measured" / "h200x2" / "all_reduce_with_tuning_log.txt"
    if not path.exists():
        pytest.skip(f"no {path}")
    tables, _ = tables_of_file(path, open_fabric("h200-2"), Asked())
    return {p.size_bytes: p.time_us for p in tables[0].points if not p.in_place}


def limited(GBps: float, floor_us: float = 14.0) -> Callable[[int, float], float]:
    return lambda size, t: max(t, float(np.hypot(size / (GBps * 1e3), floor_us)))


SWEEPS: dict[str, tuple[str, Callable[[int, float], float]]] = {
    # 27.7 GB/s was measured with NCCL_P2P_DISABLE=1 on this box (facts/h200x2.md).
    "NCCL_P2P_DISABLE=1": ("P2P_DISABLED", limited(27.7, 20.0)),
    "NCCL_PROTO=LL": ("PROTO_FORCED", limited(135.0)),
    # A block of Hopper moves about 19 GB/s, 22 at best (cost/nccl/narrowed.py).
    "NCCL_MAX_NCHANNELS=2": ("TOO_FEW_CHANNELS", limited(42.0)),
    # The model of a tree over that of a ring, on this box.
    "NCCL_ALGO=Tree": (
        "ALGO_FORCED",
        lambda s, t: t * (1.13 if s > 1 << 22 else 2.2 if s > 1 << 17 else 1.0),
    ),
    "a busy neighbour": ("SLOW_RANK", lambda _, t: 2.0 * t + 300.0),
}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_five_faults_of_two_h200_from_the_times_alone(sweep: str, tmp_path: Path) -> None:
    code, make = SWEEPS[sweep]
    draw = random.Random(4)
    times = {s: make(s, t) * draw.lognormvariate(0, 0.015) for s, t in healthy_times().items()}
    report = run(why_run(tmp_path, times))
    named = [h.code for h in report.answers[0].hypotheses[:3]]
    assert code in named, [(h.code, h.score, h.variant) for h in report.answers[0].hypotheses[:5]]
    assert report.answers[0].detected or sweep == "NCCL_ALGO=Tree"


def test_two_healthy_h200_pass(tmp_path: Path) -> None:
    report = run(why_run(tmp_path, healthy_times()))
    assert report.answers[0].verdict == Verdict.PASS
    assert report.exit_code == ExitCode.OK


RUNS = Path(__file__).parents[1] / "data" / "two_h200"
REAL = {
    "p2p-off": "P2P_DISABLED",
    "proto-ll": "PROTO_FORCED",
    "channels-2": "TOO_FEW_CHANNELS",
    "neighbour": "SLOW_RANK",
}
"""Sweeps of two H200 that were measured: NCCL_P2P_DISABLE=1, NCCL_PROTO=LL, NCCL_MAX_NCHANNELS=2, and a
process that computes on one rank's GPU.
"""


@pytest.mark.parametrize("name", REAL)
def test_faults_that_were_measured_on_two_h200(name: str) -> None:
    report = run(RUNS / name)
    assert len(report.answers) == 3
    for one in report.answers:
        assert one.verdict == Verdict.SLOW, one.reason
        assert one.hypotheses[0].code == REAL[name], (one.table_id, one.hypotheses[:3])


def test_an_algorithm_that_costs_nothing_is_said_and_no_fault() -> None:
    """NCCL_ALGO=Tree on two H200 took as long as the ring does, to 4 %."""
    report = run(RUNS / "algo-tree")
    assert [one.verdict for one in report.answers] == [Verdict.PASS] * 2
    for one in report.answers:
        assert any("NCCL_ALGO=Tree" in remark for remark in one.remarks), one.remarks
        assert all(h.code == "ALGO_FORCED" for h in one.hypotheses[:1])
    assert any(one.hypotheses for one in report.answers)


@pytest.mark.parametrize("name", ["p2p-off", "proto-ll", "channels-2"])
def test_their_times_alone_name_them(name: str) -> None:
    """Without what the environment and NCCL's log say."""
    tables, _ = tables_of_run(RUNS / name, None, Asked())
    for table in tables:
        found = answer(replace(table, said=()))
        assert REAL[name] in [h.code for h in found.hypotheses[:3]], table.name


def test_what_nccls_log_says_is_in_order_is_not_the_cause() -> None:
    cleared = {
        name: {
            code for table in tables_of_run(RUNS / name, None, Asked())[0] for code in table.cleared
        }
        for name in (*REAL, "healthy")
    }
    chosen = {"ALGO_FORCED", "PROTO_FORCED", "TOO_FEW_CHANNELS"}
    assert cleared["healthy"] == cleared["neighbour"] == {"P2P_DISABLED", *chosen}
    assert all(REAL[name] not in cleared[name] for name in REAL)
    slow = tables_of_run(RUNS / "neighbour", None, Asked())[0][1]
    with_log, without = answer(slow), answer(replace(slow, cleared=frozenset()))

    def score(found: TableAnswer) -> float:
        return sum(h.score for h in found.hypotheses if h.code in chosen)

    assert score(with_log) < 0.1 * score(without)


def test_the_same_box_without_a_fault_is_not_accused() -> None:
    report = run(RUNS / "healthy")
    assert [one.verdict for one in report.answers] == [Verdict.PASS] * 3


SLOW_TIMES = {s: 12.0 + s / 27.7e3 for s in SIZES}
FINE_TIMES = {s: 8.0 + s / 300e3 for s in SIZES}


def test_the_environment_of_the_run_is_evidence_and_not_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    found = run(why_run(tmp_path, SLOW_TIMES)).answers[0]
    assert found.verdict == Verdict.SLOW
    assert found.hypotheses[0].code == "P2P_DISABLED"
    assert "the run itself says NCCL_P2P_DISABLE=1" in found.hypotheses[0].evidence
    assert any("NCCL_P2P_DISABLE=1; what is expected is without it" in r for r in found.remarks)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"transport": "SHM"}, "P2P_DISABLED", "transport SHM"),
        (
            {"library_algorithm": "ring", "library_protocol": "ll", "library_channels": 24},
            "PROTO_FORCED",
            "ll at every size",
        ),
        (
            {"library_algorithm": "tree", "library_protocol": "simple", "library_channels": 2},
            "TOO_FEW_CHANNELS",
            "2 channels at 2 GiB",
        ),
    ],
    ids=["transport", "protocol", "channels"],
)
def test_what_nccl_s_log_said_is_evidence(
    fields: dict[str, object], code: str, words: str, tmp_path: Path
) -> None:
    def told(row: Row) -> Row:
        return replace(row, **fields)  # type: ignore[arg-type]

    plain = run(why_run(tmp_path / "a", {s: 12 + s / 60e3 for s in SIZES})).answers[0]
    found = run(why_run(tmp_path / "b", {s: 12 + s / 60e3 for s in SIZES}, change=told)).answers[0]
    before = {h.code: h.score for h in plain.hypotheses}
    after = {h.code: h for h in found.hypotheses}
    assert after[code].score >= before[code] and words in after[code].evidence


def test_wrong_data_outranks_speed(tmp_path: Path) -> None:
    path = why_run(tmp_path, SLOW_TIMES, change=lambda row: replace(row, wrong=3))
    report = run(path)
    assert report.answers[0].verdict == Verdict.INVALID
    assert report.exit_code == ExitCode.FINDING and not report.answers[0].hypotheses


def test_missing_points_are_no_pass_and_slow_ones_stay_slow(tmp_path: Path) -> None:
    fine = run(why_run(tmp_path / "a", FINE_TIMES, planned=40)).answers[0]
    assert fine.verdict == Verdict.NO_VERDICT
    assert "11 of 40 planned points were not measured" in fine.reason
    assert run(why_run(tmp_path / "b", SLOW_TIMES, planned=40)).answers[0].verdict == Verdict.SLOW


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"backend": "gloo"}, "measured with gloo"),
        ({"fabric": None, "gpu": "Some Chip"}, "no design is known"),
    ],
)
def test_a_run_that_nothing_is_predicted_for(
    options: dict[str, str], reason: str, tmp_path: Path
) -> None:
    found = run(why_run(tmp_path, SLOW_TIMES, **options)).answers[0]  # type: ignore[arg-type]
    assert found.verdict == Verdict.NO_VERDICT and reason in found.reason


def test_a_design_is_found_for_a_run_that_names_none(tmp_path: Path) -> None:
    assert run(why_run(tmp_path, SLOW_TIMES, fabric=None)).answers[0].verdict == Verdict.SLOW


def test_a_run_without_rows_and_one_of_mixed_schemas(tmp_path: Path) -> None:
    empty = why_run(tmp_path / "a", {}, planned=5)
    found = run(empty).answers[0]
    assert found.verdict == Verdict.NO_VERDICT and "5 of 5 planned points" in found.reason
    mixed = why_run(tmp_path / "b", FINE_TIMES)
    file = mixed / "records.jsonl"
    lines = file.read_text().splitlines()
    older = {**json.loads(lines[0]), "schema_version": 2}
    del older["memory"]
    file.write_text("\n".join([json.dumps(older), *lines[1:]]))
    answer = run(mixed).answers[0]
    assert answer.verdict == Verdict.NO_VERDICT and "schema versions 2 and" in answer.reason
    newer = {**json.loads(lines[0]), "schema_version": 99}
    file.write_text("\n".join([json.dumps(newer), *lines[1:]]))
    with pytest.raises(UsageError, match="schema"):
        run(mixed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_that_are_not_there_or_contradict_each_other_are_no_pass(
    tmp_path: Path, damage: str
) -> None:
    path = why_run(tmp_path, FINE_TIMES, planned=len(FINE_TIMES))
    assert run(path).exit_code == ExitCode.OK
    damaged(path, DAMAGES[damage])
    try:
        found = run(path)
    except UsageError as error:  # a figure that none can be: the reader has refused its line
        assert "records.jsonl:" in str(error)
        return
    assert found.exit_code != ExitCode.OK
    assert all(a.reason and "index" not in a.reason for a in found.answers)


@pytest.mark.parametrize("value", ["NaN", "Infinity", 0.0, -1.0])
def test_a_prediction_that_is_none_is_not_what_a_run_is_held_against(
    tmp_path: Path, value: object
) -> None:
    path = why_run(tmp_path, {size: 4 * time_us for size, time_us in FINE_TIMES.items()})
    assert run(path).answers[0].verdict == Verdict.SLOW
    damaged(
        path,
        lambda rows: [
            {**row, "predicted_low_us": value, "predicted_time_us": value} for row in rows
        ],
    )
    assert run(path).answers[0].verdict == Verdict.SLOW


@pytest.mark.parametrize("ranks", [0, 1, 4, 10**18])
def test_rows_of_other_ranks_than_the_run_had_are_no_verdict(tmp_path: Path, ranks: int) -> None:
    path = why_run(tmp_path, FINE_TIMES)
    damaged(path, lambda rows: [{**row, "world_size": ranks} for row in rows])
    (found,) = run(path).answers
    assert found.verdict == Verdict.NO_VERDICT and "placement.json has 2" in found.reason


@pytest.mark.parametrize("table", ["", "box"])
@pytest.mark.parametrize("lost", ["a time", "every time", "one rank"])
def test_rows_of_a_file_that_hold_no_measurement_are_no_pass(
    tmp_path: Path, table: str, lost: str
) -> None:
    path = csv_of(tmp_path / "a.csv", {table: FINE}, lambda _: ("", "", ""))
    assert run(path).exit_code == ExitCode.OK
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows[:1] if lost == "a time" else rows:
        row.update({"n_ranks": "1"} if lost == "one rank" else {"time_us": "0"})
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = run(path)
    assert found.exit_code == ExitCode.NO_VERDICT and len(found.answers) == 1


def test_eager_calls_are_held_against_what_issuing_them_takes(tmp_path: Path) -> None:
    eager = {s: max(40.0, t) for s, t in FINE_TIMES.items()}
    assert run(why_run(tmp_path / "a", eager, timing="eager")).answers[0].verdict == Verdict.PASS
    found = run(why_run(tmp_path / "b", eager, timing="graph")).answers[0]
    assert "HOST_OVERHEAD_SMALL" in [h.code for h in found.hypotheses[:2]]


def test_an_answer_for_a_table_keeps_its_name() -> None:
    tables, _ = tables_of_file_of(FINE)
    assert answer(tables[0]).table_id == "fine"


def tables_of_file_of(points: list) -> tuple[list, list]:  # type: ignore[type-arg]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = csv_of(Path(folder) / "a.csv", {"fine": points}, lambda _: ("", "", ""))
        return tables_of_file(path, None, Asked())
