"""`clusterlab baseline save` of runs that were noisy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.records.fake_runs import make_run
from tests.verdict.test_steady import steady_rows, with_width


@pytest.mark.parametrize("how", ["wide", "scattered"])
def test_a_noisy_run_is_refused_by_its_points_unless_that_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    rows = steady_rows(32)
    bad = [
        with_width(row, 0.5) if how == "wide" else replace(row, outliers=90, cv=0.4) for row in rows
    ]
    run = make_run(tmp_path, [*bad[:8], *rows[8:]], planned_points=32).path
    words = ["baseline", "save", str(run), "-o", str(tmp_path / "b.yaml")]
    assert main(words) == 3
    err = capsys.readouterr().err
    assert "8 of 32 points" in err and "--allow-noisy" in err and rows[0].collective in err
    assert not (tmp_path / "b.yaml").exists()
    assert main([*words, "--allow-noisy"]) == 0
    assert (tmp_path / "b.yaml").exists()
