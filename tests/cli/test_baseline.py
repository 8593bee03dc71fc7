"""`clusterlab baseline`: saved, checked, from and to ReFrame; bad files are one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from clusterlab.cli.main import main
from clusterlab.runs.comparing.baseline_file import baseline_text, read_baseline
from clusterlab.runs.comparing.baselines import baseline_of
from tests.formats.measured.examples import json_file
from tests.records.fake_runs import make_run
from tests.verdict.test_reproduce import again
from tests.verdict.test_steady import steady_rows


def baseline(*words: object) -> int:
    return main(["baseline", *map(str, words)])


def run_of(root: Path, *, by: float = 1.0, seed: int = 1, **options: object) -> Path:
    rows = again(steady_rows(32), by=by, noise=0.004, seed=seed)
    rows = [replace(row, time_us_loop=row.time_us_p50 / 1.02) for row in rows]
    return make_run(root, rows, **{"planned_points": 32, **options}).path  # type: ignore[arg-type]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    runs = [run_of(tmp_path, seed=seed) for seed in range(3)]
    assert baseline("save", *runs, "-o", tmp_path / "b.yaml") == 0
    return tmp_path / "b.yaml"


@pytest.mark.parametrize(
    ("by", "code", "word"), [(1.0, 0, "pass"), (1.3, 1, "slow"), (0.7, 0, "fast_unexpected")]
)
def test_saved_and_checked(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str], by: float, code: int, word: str
) -> None:
    run = run_of(tmp_path, by=by, seed=9)
    assert baseline("check", run, saved) == code
    out = capsys.readouterr().out
    assert f"\n{word}: " in f"\n{out}" and "of 3 runs" in out
    assert baseline("check", run, saved, "--json") == code
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == word and len(data["points"]) == 32 and len(data["made"]["runs"]) == 3


def test_a_file_holds_what_was_saved(tmp_path: Path) -> None:
    made = baseline_of("b", [str(run_of(tmp_path, seed=seed)) for seed in range(3)])
    read = read_baseline(Path("b"), baseline_text(made))
    assert (read.made, read.machine, read.versions) == (made.made, made.machine, made.versions)
    assert [r.point.key for r in read.points] == [r.point.key for r in made.points]
    for ours, theirs in zip(made.points, read.points, strict=True):
        assert theirs.point.p50_us == pytest.approx(ours.point.p50_us, rel=1e-5)
        assert theirs.slower == pytest.approx(ours.slower, rel=1e-5)
    assert baseline_text(read) == baseline_text(replace(read))


def test_a_stated_tolerance_is_kept_with_its_provenance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "b.yaml"
    assert baseline("save", run_of(tmp_path), "-o", out, "--tolerance", "5%") == 0
    assert "5.0% of every point, as stated" in out.read_text()
    assert baseline("check", run_of(tmp_path, by=1.1, seed=2), out) == 1
    assert baseline("check", run_of(tmp_path, by=1.1, seed=2), out, "--tolerance", "20%") == 0
    assert "20.0% of every point, as stated now" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["ref.py", "ref.json"])
def test_reframe_s_references_out_and_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    runs = [run_of(tmp_path, seed=seed) for seed in range(3)]
    file = tmp_path / name
    assert baseline("save", *runs, "--reframe", file, "--system", "lab:gpu") == 0
    assert "all_reduce_bw_1KiB" in file.read_text() and "lab:gpu" in file.read_text()
    assert baseline("check", run_of(tmp_path, seed=7), file) in {0, 1}
    for by, code in ((1.3, 1), (0.7, 0)):
        assert (
            baseline("check", run_of(tmp_path, by=by, seed=7), file, "--system", "lab:gpu") == code
        )
    capsys.readouterr()
    assert baseline("check", runs[0], file, "--system", "elsewhere") == 2
    assert "lab:gpu" in capsys.readouterr().err


def test_a_reference_s_limits_are_those_of_its_bandwidth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 % below a bandwidth is 5.3 % above a time."""
    rows = steady_rows(32)
    row = next(r for r in rows if r.size_bytes == 1 << 20 and not r.in_place)
    path = tmp_path / "ref.py"
    path.write_text(
        f"reference = {{'*': {{'all_reduce_bw_1MiB': ({row.busbw_GBps!r}, -0.05, None, 'GB/s')}}}}"
    )
    loops = [
        replace(r, time_us_p50=r.time_us_loop, p50_low_us=None, p50_high_us=None) for r in rows
    ]
    for by, verdict in ((1.052, "pass"), (1.054, "slow"), (0.1, "pass")):
        found = [replace(r, time_us_loop=r.time_us_loop * by) for r in loops]
        run = make_run(tmp_path, found, planned_points=32)
        baseline("check", run.path, path, "--json")
        points = json.loads(capsys.readouterr().out)["points"]
        (told,) = [p for p in points if p["ratio"] is not None]
        assert told["verdict"] == verdict and told["ratio"] == pytest.approx(by)


def test_nccl_tests_j_files_are_runs_and_baselines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(json_file())
    data = json.loads(json_file())
    for result in data["results"]:
        for half in ("out_of_place", "in_place"):
            figures = result[half]
            result[half] = {**figures, "time": 150.0, "alg_bw": figures["alg_bw"] / 1.5}
            result[half]["bus_bw"] = figures["bus_bw"] / 1.5
    (tmp_path / "b.json").write_text(json.dumps(data))
    assert baseline("save", tmp_path / "a.json", "-o", tmp_path / "b.yaml") == 0
    assert baseline("check", tmp_path / "b.json", tmp_path / "b.yaml") == 1
    assert baseline("check", tmp_path / "b.json", tmp_path / "a.json") == 1
    capsys.readouterr()
    assert baseline("check", tmp_path / "a.json", tmp_path / "b.yaml") == 3
    assert "was made of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["save", "RUN"], "no file to write"),
        (["save", "RUN", "-o", "b.yaml", "--tolerance", "lots"], "--tolerance"),
        (["save", "absent", "-o", "b.yaml"], "absent"),
        (["check", "RUN", "absent.yaml"], "absent.yaml"),
        (["check", "RUN", "RUN", "--system", "x"], "--system"),
        (["check", "RUN", "SAVED", "--allow-different", "all"], "--allow-different"),
    ],
)
def test_bad_words_are_one_line(
    tmp_path: Path,
    saved: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    run = run_of(tmp_path)
    capsys.readouterr()
    given = [{"RUN": str(run), "SAVED": str(saved)}.get(word, word) for word in words]
    assert baseline(*given) == 2
    err = capsys.readouterr().err
    assert err.startswith("clusterlab: ") and said in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format: 1", "format: 9", "format 9"),
        ("kind: clusterlab baseline", "kind: other", "not a baseline"),
        ("collective: all_reduce", "collective: all_reduse", "all_reduce"),
        ("loop_us: ", "loop_us: -", "points[0].loop_us"),
        ("size_bytes: 1024,", "size_bytes: 0,", "points[0].size_bytes"),
        ("spread: ", "sprad: ", "sprad"),
        ("in_place: true", "in_place: false", "the same point as points[0]"),
        ("points:", "punkte:", "punkte"),
        ("between: ", "between: -", "noise.small.between"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    text = saved.read_text()
    assert old in text
    saved.write_text(text.replace(old, new, 1))
    run = run_of(tmp_path)
    capsys.readouterr()
    assert baseline("check", run, saved) == 2
    err = capsys.readouterr().err
    assert f"{saved}:" in err and said in err


def test_a_baseline_of_unfit_runs_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path)
    assert baseline("save", run, run, "-o", tmp_path / "b.yaml") == 3
    assert "given twice" in capsys.readouterr().err
    short = run_of(tmp_path, planned_points=40)
    assert baseline("save", short, "-o", tmp_path / "b.yaml") == 3
    assert not (tmp_path / "b.yaml").exists()


WRONG_TYPES = [-1, 1.5, {}, [1], [[]], {"a": 1}]
MAY_BE = [("loop_us", 1.5), ("ranks", [1]), ("aggregated", -1)]


@pytest.mark.parametrize("value", WRONG_TYPES, ids=str)
@pytest.mark.parametrize(
    "field",
    [
        *(("machine", name) for name in ("gpus", "layout", "fabric", "backend", "hardware")),
        ("versions", "library_version"),
        *(("points", 0, name) for name in ("dtype", "op", "timing", "beside", "in_place")),
        *(("points", 0, name) for name in ("loop_us", "aggregated", "blocking", "ranks", "runs")),
    ],
    ids=str,
)
def test_a_field_of_the_wrong_type_is_named(
    tmp_path: Path,
    saved: Path,
    capsys: pytest.CaptureFixture[str],
    field: tuple[str | int, ...],
    value: object,
) -> None:
    if (field[-1], value) in MAY_BE:
        pytest.skip("it may be that")
    data = yaml.safe_load(saved.read_text())
    at = data
    for step in field[:-1]:
        at = at[step]
    at[field[-1]] = value
    saved.write_text(f"# clusterlab baseline\n{yaml.safe_dump(data)}")
    assert baseline("check", run_of(tmp_path), saved) == 2
    err = capsys.readouterr().err
    assert str(field[-1]) in err and "expected" in err and f"{saved}:" in err


@pytest.mark.parametrize("value", [1e308, 0.0, -1.0, float("inf"), float("nan")])
def test_noise_and_times_have_limits(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str], value: float
) -> None:
    for field in (
        ("noise", "small", "between"),
        ("noise", "small", "alone"),
        ("points", 0, "p50_us"),
    ):
        data = yaml.safe_load(saved.read_text())
        at = data
        for step in field[:-1]:
            at = at[step]
        at[field[-1]] = value
        other = saved.with_name("other.yaml")
        other.write_text(f"# clusterlab baseline\n{yaml.safe_dump(data)}")
        assert baseline("check", run_of(tmp_path), other) == 2
        assert str(field[-1]) in capsys.readouterr().err


@pytest.mark.parametrize("by", [1.0, 3.0])
def test_a_baseline_without_tolerances_judges_nothing(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str], by: float
) -> None:
    data = yaml.safe_load(saved.read_text())
    data["noise"] = {}
    for point in data["points"]:
        point["slower"] = point["faster"] = None
    saved.write_text(f"# clusterlab baseline\n{yaml.safe_dump(data)}")
    assert baseline("check", run_of(tmp_path, by=by), saved) == 3
    assert "no tolerance" in capsys.readouterr().out
    assert baseline("check", run_of(tmp_path, by=by), saved, "--tolerance", "5%") == (by > 1)


def test_a_pass_says_what_of_the_baseline_was_not_measured(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that had fewer points in its plan may pass, and says of how many it does not speak."""
    run = run_of(tmp_path, seed=9, planned_points=28)
    file = run / "records.jsonl"
    file.write_text("".join(f"{line}\n" for line in file.read_text().splitlines()[:28]))
    assert baseline("check", run, saved) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("pass: ") and "4 points of the baseline say nothing" in first
