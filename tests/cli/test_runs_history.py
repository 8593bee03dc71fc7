"""``clusterlab runs list``, ``query``, ``trend``, ``index`` as people and scripts use them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.core.dtypes import dtype
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import make_point
from clusterlab.records import run_dir
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.index_files import LIST
from clusterlab.records.run_dir import RunDir, create_run, end_attempt, start_attempt, utc_text
from clusterlab.records.schema import row_to_line
from tests.records.fake_runs import START, fake_row, make_run, points

SIZES = tuple(1 << (25 + i) for i in range(4))


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
    monkeypatch.setattr(run_dir, "versions", dict)


def nightly(
    root: Path,
    number: int,
    *,
    slow: float = 1.0,
    hosts: tuple[str, ...] = ("n0", "n1"),
    name: str = "nightly",
    cluster: str = "alps",
    fabric: str = "hgx-h100",
    **options: object,
) -> RunDir:
    """A night's sweep of four large sizes in two collectives, ``slow`` times as long as usual."""
    rng = random.Random(number)
    when = START + timedelta(days=number)
    os.environ["SLURM_CLUSTER_NAME"] = cluster
    run = create_run(name, root=root, command=("clusterlab", "bench"), now=when)
    del os.environ["SLURM_CLUSTER_NAME"]
    run = start_attempt(run, command=("clusterlab", "bench"), now=when)
    write_placement(
        run.path,
        Placement(
            tuple(RankPlacement(r, hosts[r % len(hosts)], r // len(hosts)) for r in range(4))
        ),
    )
    write_fabric(run.path, FabricReference(fabric, "0" * 64))
    pace = math.exp(rng.gauss(0, 0.006))
    rows = [
        replace(
            fake_row(point, rng, slow=slow * pace, noise=0.004, number=i, **options),  # type: ignore[arg-type]
            backend="nccl",
            time_utc=utc_text(when + timedelta(seconds=i)),
        )
        for i, point in enumerate(points(("all_reduce", "all_gather"), SIZES))
    ]
    run.records_path.write_bytes(b"".join(map(row_to_line, rows)))
    return end_attempt(run, 0, now=when + timedelta(minutes=5))


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    """Twenty nights; from the fourteenth on everything takes 1.2 times as long."""
    for number in range(20):
        nightly(tmp_path, number, slow=1.2 if number >= 14 else 1.0)
    return tmp_path


def test_since_when_is_it_slower(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "trend", "--runs", str(nights), "--json"]) == 1
    (machine,) = json.loads(capsys.readouterr().out)
    assert (machine["cluster"], machine["runs"], machine["verdict"]) == ("alps", 20, "regression")
    for cell in machine["cells"]:
        (shift,) = cell["shifts"]
        assert shift["since"]["time_utc"] == utc_text(START + timedelta(days=14))
        assert shift["ratio"] == pytest.approx(1.2, abs=0.03)
        assert "n0, n1" in shift["nodes"]["why_not"]
    assert main(["runs", "trend", "--runs", str(nights), "--collective", "all_reduce"]) == 1
    text = capsys.readouterr().out
    assert "slower" in text
    assert "since 2026-12-13 12:00" in text
    assert "all_gather" not in text
    assert "▼ 2026-12-13" in text
    assert main(["runs", "trend", "--runs", str(nights), "--until", "2026-12-12"]) == 0
    assert "no change beyond what runs differ by" in capsys.readouterr().out


def test_a_run_of_its_own_is_no_trend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nightly(tmp_path, 1)
    assert main(["runs", "trend", "--runs", str(tmp_path)]) == 3
    assert "6 or more show a trend" in capsys.readouterr().out
    assert main(["runs", "trend", "--runs", str(tmp_path), "--cluster", "apls"]) == 3
    assert "did you mean 'alps'?" in capsys.readouterr().err


def test_a_list_says_what_there_is_and_what_cannot_be_read(
    nights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = start_attempt(create_run("now", root=nights, now=START + timedelta(days=30)))
    broken = make_run(nights, [], name="broken")
    (broken.path / "run.json").write_text("{")
    assert main(["runs", "list", "--runs", str(nights), "--json", "--most", "0"]) == 0
    found = {run["run"]: run for run in json.loads(capsys.readouterr().out)}
    assert len(found) == 22
    assert found[broken.path.name]["state"] == "damaged"
    assert "not JSON" in found[broken.path.name]["error"]
    assert found[started.path.name]["state"] == "running"
    held = json.loads((started.path / "alive.json").read_text())
    (started.path / "alive.json").write_text(json.dumps(held | {"started": "1"}))  # killed just now
    assert main(["runs", "list", "--runs", str(nights), "--json", "--most", "0"]) == 0
    again = {run["run"]: run for run in json.loads(capsys.readouterr().out)}
    assert again[started.path.name]["state"] == "not ended"
    (started.path / "alive.json").unlink()
    assert main(["runs", "list", "--runs", str(nights), "--most", "3"]) == 0
    out, err = capsys.readouterr()
    assert "not ended" in out
    assert "3 of 22 runs" in err
    assert main(["runs", "list", "--runs", str(nights), "--host", "n7"]) == 0
    out, err = capsys.readouterr()
    assert not out
    assert "--host: no run has 'n7'" in err


def test_a_query_is_a_table_csv_or_json(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["runs", "query", "--runs", str(nights), "--size", "32M", "--collective", "all_reduce"]
    assert main([*words, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main([*words, "--json"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert len(rows) == len(same) == 40
    for one, other in zip(rows, same, strict=True):
        assert one["run"] == other["run"]
        assert float(one["busbw_GBps"]) == other["busbw_GBps"]
        assert one["hosts"].split() == other["hosts"] == ["n0", "n1"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 41
    assert not err


@pytest.fixture
def nights_of_pairs(tmp_path: Path) -> Path:
    """Twenty nights of messages between four ranks on three hosts; from the thirteenth on those between n1
    and n2 take 1.4 times as long. On the last, the same ranks were on other hosts.
    """
    hosts = ("n0", "n0", "n1", "n2")
    for number in range(20):
        rng = random.Random(number)
        own = hosts if number < 19 else ("m0", "m0", "m1", "m2")
        when = START + timedelta(days=number)
        run = start_attempt(create_run("pairs", root=tmp_path, command=("x",), now=when), now=when)
        write_placement(
            run.path, Placement(tuple(RankPlacement(r, host, r) for r, host in enumerate(own)))
        )
        rows = []
        for a, b in itertools.permutations(range(4), 2):
            point = make_point("send", 1 << 25, dtype("float32"), 2, ranks=(a, b))
            slow = 1.4 if {own[a], own[b]} == {"n1", "n2"} and number >= 13 else 1.0
            row = fake_row(point, rng, noise=0.006, slow=slow)
            rows.append(replace(row, backend="nccl", time_utc=utc_text(when)))
        run.records_path.write_bytes(b"".join(map(row_to_line, rows)))
        end_attempt(run, 0, now=when)
    return tmp_path


def test_since_when_is_a_link_slow(
    nights_of_pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["runs", "trend", "--runs", str(nights_of_pairs)]
    assert main([*words, "--host", "n0,n1"]) == 1
    out = capsys.readouterr().out
    assert "slower alone on n1, n2  time ×1." in out
    assert "about since 2026-12-12" in out
    assert main([*words, "--link", "n1,n2", "--json"]) == 1
    (machine,) = json.loads(capsys.readouterr().out)
    assert {tuple(one["ranks"]) for one in machine["series"]} == {(2, 3), (3, 2)}
    assert [one["runs"] for one in machine["series"]] == [19, 19]
    assert main([*words, "--link", "n0,n2"]) == 0
    assert main([*words, "--link", "m1,m2"]) == 3
    assert main(["runs", "list", "--runs", str(nights_of_pairs), "--link", "m2,m1", "--json"]) == 0
    capsys.readouterr()
    assert main(["runs", "query", "--runs", str(nights_of_pairs), "--group", "2,3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 20


HOSTILE = (
    "=HYPERLINK(1)", "+1", "-1+2", "@SUM(1)", "\t=1", "\r=2", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07",
    "<script>alert(1)</script>", "\u202egnp", "a\nb", "../../etc/passwd", "${HOME}", "\ud800", "x" * 5000,
    "\u2028", "＝1",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_inert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    for number in range(6):
        run = nightly(tmp_path, number, name="x", fabric="y", cluster="z", hosts=("h0", "h1"))
        for file in ("run.json", "placement.json"):
            content = (run.path / file).read_text()
            for word in ("x", "z", "h0"):
                content = content.replace(f'"{word}"', json.dumps(text))
            (run.path / file).write_text(content)
    for words in (
        ["list"], ["query", "--most", "2"], ["query", "--csv"], ["trend"],
        ["list", "--json"], ["query", "--json"], ["trend", "--json"], ["list", "--host", text[:50]],
    ):  # fmt: skip
        assert main(["runs", words[0], "--runs", str(tmp_path), *words[1:]]) in (0, 3)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        shown = out + err
        assert not [c for c in shown if c != "\n" and not c.isprintable() and c != "\r"]
        assert "\x1b" not in shown
        if "--csv" in words:
            for row in csv.reader(io.StringIO(out)):
                assert not [
                    cell for cell in row if cell.startswith(("=", "+", "@", "\t", "\r", "＝"))
                ]
                assert "-1+2" not in row
        if "--json" in words:
            assert json.loads(out)
        if words in (["list"], ["trend"]):
            assert max(map(len, out.splitlines())) < 400


def test_an_index_elsewhere_and_runs_that_nobody_may_write(
    nights: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    words = ["runs", "index", "--runs", str(nights)]
    assert main([*words, "--index", str(elsewhere)]) == 0
    assert "20 runs, 320 rows; 20 runs were read" in capsys.readouterr().out
    assert not (nights / ".index").exists()
    (nights / ".index").write_text("no folder can be made here")
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "20 runs were read" in out
    assert "no index is kept" in err
    (nights / ".index").unlink()
    assert main([*words, "--rebuild"]) == 0
    (nights / ".index" / LIST).write_text("torn")
    capsys.readouterr()
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "is damaged: it is made again" in err
    assert "20 runs, 320 rows" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--runs", "absent"], "absent"),
        (["query", "--size", "much"], "--size"),
        (["query", "--since", "soon"], "--since"),
        (["trend", "--tolerance", "7"], "--tolerance"),
        (["trend", "--recent", "0"], "at least 1"),
        (["list", "--verdict", "fine"], "pass"),
        (["query", "--collective", "allreduec"], "all_reduce"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["runs", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_an_empty_folder_has_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))
    for command, code in (("list", 0), ("query", 0), ("trend", 3), ("index", 0)):
        assert main(["runs", command]) == code
    assert not list(tmp_path.iterdir())
    capsys.readouterr()
    assert main(["runs", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["runs", "query", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
