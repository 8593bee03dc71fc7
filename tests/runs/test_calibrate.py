"""From files and run directories to a calibration and its score: what is read, left out and refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row, make_point
from clusterlab.cost.predict import predict
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.run_dir import create_run, start_attempt
from clusterlab.records.schema import row_to_line
from clusterlab.runs.calibrating.calibrate import CalibrateOptions, CalibrateReport, calibrate
from clusterlab.runs.calibrating.hold_out import read_conditions
from tests.cost.calibrated.examples import request
from tests.records.fake_runs import fake_rows
from tests.support import shared_dir

HEADER = "system,nccl_version,collective,dtype,n_ranks,size_bytes,time_us\n"
SIZES = tuple(1 << e for e in range(10, 30, 2))
RUN_SIZES = tuple(1 << e for e in range(10, 32))


def rows_of(
    system: str = "h100_sxm",
    *,
    ranks: tuple[int, ...] = (2, 4, 8),
    versions: tuple[str, ...] = ("2.27.5",),
    slow: float = 1.1,
) -> str:
    """What ``predict`` says of an HGX H100, slower by a factor, as CSV."""
    lines = []
    for version in versions:
        for name in ("all_reduce", "all_gather"):
            for n in ranks:
                for size in SIZES:
                    us = predict(request("hgx-h100", n, name, size, version=version)).time_us
                    lines.append(f"{system},{version},{name},half,{n},{size},{us * slow:.3f}\n")
    return "".join(lines)


def write(path: Path, text: str) -> Path:
    path.write_text(HEADER + text, encoding="utf-8")
    return path


def run(*inputs: Path, **options: object) -> CalibrateReport:
    return calibrate(
        CalibrateOptions(tuple(inputs), **options),  # type: ignore[arg-type]
        progress=lambda _text: None,
    )


def test_a_file_becomes_a_calibration_that_says_what_it_saw(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", rows_of(versions=("2.26.2", "2.27.5")))
    made = run(path).calibration
    assert made.system == "h100_sxm" and str(made.machine) == "8 x H100 a host, NVSwitch, nccl"
    assert made.versions == ("2.26.2", "2.27.5") and made.chip == "hopper" and made.network is None
    assert [(s.collective, s.ranks, s.nodes, s.sizes_bytes, s.rows) for s in made.seen] == [
        (name, (2, 4, 8), (1,), (1 << 10, 1 << 28), 60) for name in ("all_gather", "all_reduce")
    ]
    assert [(s.file, s.rows, len(s.sha256)) for s in made.sources] == [(str(path), 120, 64)]
    assert {s.left_out for s in made.scores} == {"sizes", "ranks"}
    assert all(s.mape_pct < 5 for s in made.scores if s.left_out == "sizes")
    again = predict(request("hgx-h100", 8, "all_reduce", 1 << 20, made)).time_us
    assert again == pytest.approx(
        1.1 * predict(request("hgx-h100", 8, "all_reduce", 1 << 20)).time_us, rel=0.04
    )


def test_held_out_rows_are_no_part_of_the_fit_and_are_scored_beside_the_others(
    tmp_path: Path,
) -> None:
    found = run(write(tmp_path / "m.csv", rows_of()), hold_out=("n=4",))
    assert found.rows == 40 and all(4 not in s.ranks for s in found.calibration.seen)
    groups = {s.group: s for s in found.held_out}
    assert {"all rows", "all_reduce", "all_gather", "<64 KiB", ">=64 MiB"} <= set(groups)
    everything = groups["all rows"]
    assert everything.n == 20 and everything.unpredicted == 0
    assert everything.calibrated and everything.by_class and everything.alpha_beta
    assert everything.calibrated.mape_pct < 4
    assert everything.by_class.mape_pct == pytest.approx(100 * (1 - 1 / 1.1), rel=0.01)
    assert everything.alpha_beta.mape_pct > everything.calibrated.mape_pct
    assert everything.library is not None and everything.coverage_pct is not None


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("nccl_version=2.27.5",), 60),
        (("nccl_version=2.26.2",), 60),
        (("n=2,4",), 40),
        (("collective=allreduce", "n=8"), 100),
        (("dtype=half", "n_nodes=1", "n=2"), 80),
    ],
)
def test_rows_that_meet_all_conditions_are_held_out(
    tmp_path: Path, words: tuple[str, ...], kept: int
) -> None:
    text = rows_of(versions=("2.26.2", "2.27.5")).replace("2.26.2", "2.26.2+cuda12.8")
    assert run(write(tmp_path / "m.csv", text), hold_out=words).rows == kept


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("m=4", r"--hold-out m=4: unknown key 'm'; expected one of n, n_nodes"),
        ("n", r"'n'; expected n=VALUE"),
        ("n=", r"'n='; expected n=VALUE"),
        ("n=4,,8", r"expected n=VALUE"),
        ("collective=all_redux", r"all_redux"),
    ],
)
def test_a_word_that_holds_out_nothing_known_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_conditions([word])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("n=16", r"--hold-out n=16: holds no row; expected some of n=2, 4, 8"),
        ("n_nodes=1", r"holds every row; expected some of n_nodes=1"),
    ],
)
def test_holding_out_nothing_or_everything_is_refused(
    tmp_path: Path, word: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(write(tmp_path / "m.csv", rows_of()), hold_out=(word,))


def test_one_of_several_systems_has_to_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", rows_of() + rows_of("other h100"))
    with pytest.raises(
        UsageError, match=r"2 systems: h100_sxm \(60 points\), other h100 .*--system"
    ):
        run(path)
    assert run(path, system="other h100").calibration.system == "other h100"
    with pytest.raises(UsageError, match=r"--system: unknown system 'h100'.*did you mean"):
        run(path, system="h100")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no measurement that counts in 0 rows"),
        ("h100_sxm,2,all_reduce,half,8,1024,0\n", "no measurement that counts in 1 rows"),
        ("h100_sxm,2,all_reduce,half,8,1024,soon\n", r":2: time_us is 'soon'"),
        ("h100_sxm,2,all_reduce,half,8,1024,12\n", "1 rows of 1 sizes are too few"),
        ("a box,2,all_reduce,half,8,1024,12\n", "none of 1 points can be predicted.*no known GPU"),
        ("h100_sxm,2,all_redux,half,8,1024,12\n", "none of 1 points can be predicted.*all_redux"),
    ],
)
def test_rows_that_make_no_calibration_are_one_clear_error(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(write(tmp_path / "m.csv", text))


def test_inputs_that_are_no_measurements_are_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\x00")
    for path, message in (
        (tmp_path / "none.csv", r"none\.csv: no such file"),
        (tmp_path, r"a folder without run\.json"),
        (binary, r"binary\.csv: not UTF-8 text"),
        (Path("/dev/null"), "not a regular file"),
    ):
        with pytest.raises(UsageError, match=message):
            run(path)


def test_the_same_rows_count_once_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    text = rows_of() + "h100_sxm,2.27.5,all_reduce,half,1,1024,3\n"
    paths = [write(tmp_path / name, text) for name in ("a.csv", "b.csv")]
    found = run(*paths)
    assert found.rows == 60 and len(found.calibration.sources) == 1
    assert any("b.csv: the same as" in note for note in found.notes)
    assert any("1 points of h100_sxm left out: one rank" in note for note in found.notes)


def test_a_fabric_takes_the_place_of_what_the_file_says(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", rows_of("my box"))
    made = run(path, fabric="hgx-h100").calibration
    assert made.system == "my box" and made.machine.gpu == "H100"


def run_of(
    root: Path, *, backend: str = "nccl", fabric: str | None = "hgx-h100", slow: float = 1.1
) -> Path:
    """A run directory of eight H100, as ``bench`` leaves it."""
    points = [
        make_point(n, s, dtype("float32"), 8)
        for n in ("all_reduce", "all_gather")
        for s in RUN_SIZES
    ]
    rows: list[Row] = [
        replace(
            row,
            backend=backend,
            time_us_loop=max(
                slow * predict(request("hgx-h100", 8, row.collective, row.size_bytes)).time_us, 40.0
            ),
        )
        for row in fake_rows(points)
    ]
    made = start_attempt(create_run("sweep", root=root))
    ranks = [
        RankPlacement(r, "n0", r, gpu=f"0000:{r}", gpu_name="NVIDIA H100 80GB HBM3")
        for r in range(8)
    ]
    write_placement(made.path, Placement(tuple(ranks)))
    if fabric is not None:
        write_fabric(made.path, FabricReference(fabric, "0" * 64))
    made.records_path.write_bytes(b"".join(map(row_to_line, rows)))
    return made.path


@pytest.mark.parametrize("design", ["hgx-h100", "hgx-h100.yaml"])
def test_a_run_directory_is_read_by_its_records(design: str, tmp_path: Path) -> None:
    """Runs refer to a shipped design by its file's name."""
    path = run_of(tmp_path, fabric=design)
    found = run(path)
    made = found.calibration
    assert made.system == "hgx-h100" and {s.ranks for s in made.seen} == {(8,)}
    # Calls that were issued no faster than torch can say nothing of the fabric.
    assert found.rows < 2 * len(RUN_SIZES)
    assert any("issuing calls, not the fabric" in note for note in found.notes)
    large = predict(request("hgx-h100", 8, "all_reduce", 1 << 28, made)).time_us
    assert large == pytest.approx(
        1.1 * predict(request("hgx-h100", 8, "all_reduce", 1 << 28)).time_us, rel=0.03
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "gloo"}, "measured with gloo; expected a run of NCCL.*self-calibrate"),
        ({"fabric": None}, r"no fabric\.yaml.*name it with --fabric"),
    ],
)
def test_a_run_that_says_nothing_of_nccl_is_refused(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    path = run_of(tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        run(path)


LIMITS = {"a100_sxm": (5.0, 10.0), "b200_sxm": (5.5, 12.0), "h100_sxm": (6.5, 14.0)}
"""MAPE and p90 (percent) of n = 4 from n = 2 and 8, with room for another fit of the classes."""


@pytest.mark.parametrize("system", LIMITS)
def test_four_ranks_are_met_from_two_and_eight(system: str) -> None:
    path = shared_dir() / "measured" / "single_node" / "nccl_tests_single_node.csv"
    if not path.exists():
        pytest.skip(f"no {path}")
    score = run(path, system=system, hold_out=("n=4",)).held_out[0]
    mape, p90 = LIMITS[system]
    assert score.calibrated and score.alpha_beta and score.library
    assert score.calibrated.mape_pct < mape and score.calibrated.p90_pct < p90
    assert score.calibrated.mape_pct < 0.5 * score.alpha_beta.mape_pct
    assert score.calibrated.mape_pct < 0.5 * score.library.mape_pct
    assert score.coverage_pct is not None and score.coverage_pct > 80
