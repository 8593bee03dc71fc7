"""``clusterlab export`` as it is typed: where files go, and one sentence for what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.prometheus.some_runs import rail_rows, run_of, sweep_rows, training_run


def test_zoom_goes_into_the_run_or_where_it_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, sweep_rows()).path
    assert main(["export", "zoom", str(run)]) == 0
    assert main(["export", "zoom", str(run), "-o", str(tmp_path / "a.html")]) == 0
    assert (tmp_path / "a.html").read_bytes() == (run / "zoom.html").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["zoom", "RAILS"], "report.html"),
        (["zoom", "SWEEP", "-o", "NONE/a.html"], "no folder"),
        (["trace", "SWEEP"], "holds no ledger"),
        (["trace", "TRAIN", "-o", "NONE/a.json"], "no folder"),
        (["tensorboard", "EMPTY", "-o", "TB"], "neither steps nor points"),
        (["tensorboard", "SWEEP"], "--out"),
        (["tensorboard", "SWEEP", "-o", "FILE"], "no folder"),
        (["wandb", "SWEEP", "-o", "NONE"], "no such folder"),
        (["prom", "EMPTY", "--last", "3"], "not both"),
        (["prom", "NONE"], "no such run directory"),
        (["prom", "SWEEP", "-o", "NONE/a.prom"], "no folder"),
        (["prom", "SWEEP", "-o", "FILE"], "*.prom"),
        (["prom", "SWEEP", "--openmetrics", "-o", "a.prom"], "no OpenMetrics"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_one_sentence(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    places = {
        "RAILS": lambda: run_of(tmp_path, rail_rows()).path,
        "SWEEP": lambda: run_of(tmp_path, sweep_rows()).path,
        "TRAIN": lambda: training_run(tmp_path).path,
        "EMPTY": lambda: run_of(tmp_path).path,
        "NONE": lambda: tmp_path / "none",
        "FILE": lambda: tmp_path / "file",
        "TB": lambda: tmp_path / "tb",
    }
    typed = ["export"]
    for word in words:
        first, slash, rest = word.partition("/")
        typed.append(f"{places[first]()}{slash}{rest}" if first in places else word)
    assert main(typed) == 2
    out = capsys.readouterr()
    assert said in out.err
    assert out.err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_that_was_not_started_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from clusterlab.records.run_dir import create_run

    assert main(["export", "prom", str(create_run("x", root=tmp_path).path)]) == 2
    assert "started" in capsys.readouterr().err
