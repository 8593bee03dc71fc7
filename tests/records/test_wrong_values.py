"""A value of a wrong kind in any of a run's files is refused on reading: file, field, what was expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.records.documents import write_findings
from clusterlab.records.run_dir import RunDir, open_run
from clusterlab.records.schema import row_to_line
from clusterlab.report.data import load
from tests.records.fake_runs import fake_rows, make_run, points, renamed

ROWS = fake_rows(points(["all_reduce"], (1024,)))
TYPED = {"collectives": ["all_reduce"], "sizes_bytes": [8]}
OVERLAP = {"measures": "overlap", "beside": ["compute"], "typed": TYPED}
RANK, LAST, MADE = ("ranks", 1), ("attempts", 0), ("created_by",)
CONFIGURATION = ("configuration",)


def _run(root: Path) -> RunDir:
    return make_run(root, ROWS)


def _put(file: Path, where: tuple[str | int, ...], value: Any) -> None:
    data = inner = json.loads(file.read_text())
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    file.write_text(json.dumps(data))


def _typed(**changes: Any) -> dict[str, Any]:
    return {**OVERLAP, "typed": {**TYPED, **changes}}


@pytest.mark.parametrize(
    ("file", "where", "value", "said"),
    [
        ("placement.json", (*RANK, "gpu_name"), 5, r"ranks\[1\]: gpu_name: 5; expected a string"),
        ("placement.json", (*RANK, "host"), None, r"ranks\[1\]: host: None; expected a string"),
        ("placement.json", (*RANK, "rank"), True, "rank: True; expected a whole number"),
        ("placement.json", (*RANK, "numa"), "0", "numa: '0'; expected a whole number or null"),
        ("placement.json", (*RANK, "numa"), 10**30, "numa: 1000"),
        ("placement.json", (*RANK, "cores"), [0, "1"], "cores: .*; expected a list of CPU numbers"),
        ("placement.json", (*RANK, "cores"), "0-3", "cores: '0-3'; expected a list"),
        ("placement.json", (*RANK, "nics"), [["mlx5"]], "nics: .*; expected a list of device names"),
        ("placement.json", (*RANK, "device"), {}, "device: {}; expected a string or null"),
        ("findings.json", ("findings", 0, "evidence"), [5], r"findings\[0\]: evidence\[0\]: 5"),
        ("findings.json", ("findings", 0, "ranks"), ["0"], r"ranks\[0\]: '0'; expected a whole"),
        ("findings.json", ("findings", 0, "links"), [None], r"links\[0\]: None; expected a string"),
        ("run.json", (*MADE, "versions", "torch"), 2, "versions: torch: 2; expected a string"),
        ("run.json", (*MADE, "environment", "SLURM_JOB_ID"), 7, "environment: SLURM_JOB_ID: 7"),
        ("run.json", (*MADE, "command"), ["a", None], r"command\[1\]: None; expected a string"),
        ("run.json", (*LAST, "context", "versions", "nccl"), [1], "versions: nccl"),
        ("run.json", (*LAST, "context", "environment", "A"), {}, "environment: A"),
        ("run.json", (*LAST, "exit_code"), 10**400, "exit_code: .* expected .* 64 bits"),
        ("run.json", ("planned_points",), -1, "planned_points: -1; expected 0 or more"),
        ("run.json", ("planned_points",), 2**70, "planned_points: .* expected .* 64 bits"),
        ("run.json", (*CONFIGURATION, "dtypes"), ["floaty"], r"dtypes\[0\]: unknown dtype 'floaty'"),
        ("run.json", (*CONFIGURATION, "dtypes"), "float32", "dtypes: 'float32'; expected a list"),
        ("run.json", (*CONFIGURATION, "dtypes"), [["x"]], r"dtypes\[0\]: .*; expected a string"),
        ("run.json", (*CONFIGURATION, "collectives"), [5], r"collectives\[0\]: 5; expected a string"),
        ("run.json", (*CONFIGURATION, "collectives"), ["all"], "unknown collective 'all'"),
        ("run.json", (*CONFIGURATION, "ops"), ["xor"], r"ops\[0\]: unknown operator 'xor'"),
        ("run.json", (*CONFIGURATION, "sizes_bytes"), [-8], r"sizes_bytes\[0\]: -8; expected 0"),
        ("run.json", (*CONFIGURATION, "pattern"), "stars", "pattern: 'stars'; expected all, node"),
        ("run.json", (*CONFIGURATION, "pattern"), "nodes:x", "pattern: 'nodes:x'; expected all, node"),
        ("run.json", (*CONFIGURATION, "pattern"), 5, "pattern: 5; expected a string"),
        ("run.json", (*CONFIGURATION, "measures"), {}, "measures: {}; expected a string"),
        ("run.json", (*CONFIGURATION, "train"), {"steps": [2**70]}, r"train.steps\[0\]: .* 64 bits"),
        ("run.json", CONFIGURATION, {**OVERLAP, "typed": None}, "typed: None; expected a mapping"),
        ("run.json", CONFIGURATION, {**OVERLAP, "beside": 3}, "beside: 3; expected a list"),
        ("run.json", CONFIGURATION, _typed(collectives="x"), "typed: collectives: 'x'; expected"),
        ("run.json", CONFIGURATION, _typed(sizes_bytes={}), "typed: sizes_bytes: {}; expected"),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_kind_is_refused_by_file_and_field(
    tmp_path: Path, file: str, where: tuple[str | int, ...], value: Any, said: str
) -> None:
    run = _run(tmp_path)
    write_findings(run.path, [Finding("A", Severity.ERROR, ("e",), "fix", (0,), ("l",))])
    _put(run.path / file, where, value)
    with pytest.raises(UsageError, match=said) as refused:
        load(open_run(run.path))
    assert file in str(refused.value)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("time_us_loop", -1.0), ("time_us_loop", 10**400), ("time_us_p50", 1e308)),
        *(("busbw_GBps", -0.5), ("busbw_GBps", "-Infinity"), ("algbw_GBps", 1e31)),
        *(("requested_bytes", 10**400), ("requested_bytes", -8), ("count", 2**70)),
        *(("wrong", -1), ("wrong_index", 2**63), ("attempt", -1)),
        *(("ranks", []), ("ranks", [-1, 2]), ("ranks", [0, 2**70]), ("ranks", [0, True])),
    ],
    ids=lambda value: str(value)[:24],
)
@pytest.mark.parametrize("padding", [0, 900])
def test_a_figure_that_none_can_be_is_refused_by_its_line(
    tmp_path: Path, field: str, value: Any, padding: int
) -> None:
    run = _run(tmp_path)
    bad = {**json.loads(row_to_line(ROWS[0])), field: value}
    good = row_to_line(ROWS[1]) * (1 + padding)
    run.records_path.write_bytes(good + json.dumps(bad).encode() + b"\n" + row_to_line(ROWS[0]))
    with pytest.raises(UsageError, match=f"records.jsonl:{2 + padding}: {field}: .*expected"):
        run.records()


def test_rows_of_an_attempt_that_there_was_not_are_told(tmp_path: Path) -> None:
    rows = [ROWS[0], renamed(ROWS[1], attempt=7)]
    known, odd = make_run(tmp_path, ROWS), make_run(tmp_path, rows)
    assert not [note for note in load(known).notes if "run.json" in note]
    notes = [note for note in load(odd).notes if "run.json" in note]
    assert notes == ["1 row is of attempt 7, of which run.json (1 attempt) does not know."]
