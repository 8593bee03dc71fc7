"""The last lines of a run: each thing once, and no more lines than anyone reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.core.findings import Severity
from clusterlab.records.documents import read_findings
from clusterlab.runs.finish import MOST_WRONG, conclude
from tests.records.fake_runs import fake_rows, make_run, points, renamed


@pytest.mark.parametrize("spoilt", [1, MOST_WRONG, MOST_WRONG + 1, 32])
def test_wrong_data_is_told_point_by_point_up_to_a_few_and_then_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoilt: int
) -> None:
    rows = fake_rows(points(["all_reduce", "broadcast"]))
    assert len(rows) == 32
    wrong = [
        renamed(
            r, wrong=1, wrong_rank=i % 2, wrong_index=i, wrong_expected=1.0, wrong_got=2.0
        )
        for i, r in enumerate(rows[:spoilt])
    ]  # fmt: skip
    run = make_run(tmp_path, [*wrong, *rows[spoilt:]])
    conclude(run, None)
    said = [line for line in capsys.readouterr().err.splitlines() if "wrong data: " in line]
    counted = spoilt > MOST_WRONG
    assert len(said) == min(spoilt, MOST_WRONG) + counted
    assert (f"{spoilt - MOST_WRONG} more points" in said[-1]) == counted
    (finding,) = read_findings(run.path)
    assert (finding.code, finding.severity) == ("WRONG_DATA", Severity.FATAL)
    assert len(finding.evidence) == len(said)
    assert finding.ranks == tuple(range(min(2, spoilt)))
