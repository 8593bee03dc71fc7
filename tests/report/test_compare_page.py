"""The page of a comparison: the worst first, the refusal with its reason, the next command."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.records.documents import FabricReference, write_fabric
from clusterlab.runs.comparing.sides import read_side
from clusterlab.verdict.against.changes import What
from clusterlab.verdict.against.comparison import against
from clusterlab.verdict.against.next_step import next_step
from tests.records.fake_runs import make_run
from tests.report.kinds_of_run import DATA
from tests.verdict.test_reproduce import again
from tests.verdict.test_steady import steady_rows

ROWS = steady_rows(32)
HEALTHY, SLOW = DATA / "two_h200/healthy", DATA / "two_h200/p2p-off"


def a_run(root: Path, by: float = 1.0, **changes: object) -> Path:
    rows = again(ROWS, by=by)
    rows[0] = replace(rows[0], **changes)  # type: ignore[arg-type]
    return make_run(root, rows, planned_points=len(rows)).path


def page_of(folder: Path, *words: object) -> str:
    file = folder / "compare.html"
    code = main(["compare", *map(str, words), "--html", str(file)])
    assert code in {0, 1, 3}
    return file.read_text()


def text_of(page: str) -> str:
    body = re.sub(r"<style>.*?</style>|<(title|desc)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))


def case(name: str, root: Path) -> tuple[list[Path], str, str]:
    """Two sides, the verdict's word and what is said next."""
    first = a_run(root)
    if name == "regression":
        other = a_run(root, 1.3)
        return [first, other], "▼ regression", f"clusterlab why {other}"
    if name == "improvement":
        other = a_run(root, 0.7)
        return [first, other], "▲ improvement", f"clusterlab baseline save {other} -o baseline.yaml"
    if name == "same":
        other = a_run(root)
        return [first, other], "● no regression", f"clusterlab runs reproduce {first} {other}"
    if name == "invalid":
        other = a_run(root, wrong=3, wrong_rank=1, wrong_index=0)
        return [first, other], "✕ wrong data", f"clusterlab report {other}"
    if name == "missing":
        other = make_run(root, again(ROWS)[1:], planned_points=len(ROWS)).path
        return [first, other], "○ no verdict", f"compare {first} {other} --allow-missing"
    if name == "fabric":
        other = make_run(root, again(ROWS), host="node-b", planned_points=len(ROWS)).path
        write_fabric(other, FabricReference("another", "0" * 64))
        allowed = f"compare {first} {other} --allow-different fabric"
        return [first, other], "○ no verdict", allowed
    return [first, first], "○ no verdict", "Give two runs of the same sweep"


CASES = ("regression", "improvement", "same", "invalid", "missing", "fabric", "twice")


@pytest.mark.parametrize("name", CASES)
def test_a_page_says_the_verdict_and_what_to_type(tmp_path: Path, name: str) -> None:
    sides, word, step = case(name, tmp_path / "runs")
    said = text_of(page_of(tmp_path, *sides))
    assert said.index(word) < said.index(step) < said.index("What differs")
    assert ("other fabric" in said) == (name == "fabric")
    assert ("the same run is given twice" in said) == (name == "twice")
    assert ("Size by size" in said) == (name not in {"fabric", "twice"})


@pytest.mark.parametrize("name", CASES)
def test_what_is_to_be_typed_is_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """It parses, and is taken for these runs: never exit code 2."""
    (first, second), _, _ = case(name, tmp_path / "runs")
    found = against(read_side(str(first)), read_side(str(second)))
    command = next_step(found, str(first), str(second)).command
    if not command:
        return
    words = shlex.split(command.replace("baseline.yaml", str(tmp_path / "baseline.yaml")))
    assert words[0] == "clusterlab"
    assert main(words[1:]) in {0, 1, 3}, capsys.readouterr().err


def test_tables_and_charts_begin_with_the_worst(tmp_path: Path) -> None:
    said = text_of(page_of(tmp_path, HEALTHY, SLOW))
    found = against(read_side(str(HEALTHY)), read_side(str(SLOW)))
    slower = [c for c in found.changes if c.what is What.REGRESSION and c.collective]
    worst = max(slower, key=lambda change: change.ratio or 0)
    assert f"takes {worst.ratio:.2f} times as long" in said.partition("Next:")[0]
    table = said.partition("The worst first.")[2]
    assert table.index("slower") < table.index("no change shown") < table.index("not judged")
    assert "NCCL_P2P_DISABLE – 1" in said


def test_several_are_told_apart(tmp_path: Path) -> None:
    sides = [a_run(tmp_path / "runs", by) for by in (1.0, 1.0, 1.3, 0.7)]
    page = page_of(tmp_path, *sides)
    said = text_of(page)
    assert all(side.name in said for side in sides)
    assert "▼ regression The worst of 3:" in said.partition("Each against A")[0]
    assert [said.count(word) for word in ("▼ regression", "▲ improvement")] == [3, 2]
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))


def test_the_page_carries_its_data(tmp_path: Path) -> None:
    page = page_of(tmp_path, HEALTHY, SLOW)
    links = re.findall(r'href="data:([^;]+);base64,([^"]+)"', page)
    assert [kind for kind, _ in links] == ["text/csv", "application/gzip"]
    lines = base64.b64decode(links[0][1]).decode().splitlines()
    (data,) = json.loads(gzip.decompress(base64.b64decode(links[1][1])))
    assert len(lines) == 1 + len(data["points"]) == 1 + data["points_in_common"]


@pytest.mark.parametrize("where", ["no/such/folder.html", "."])
def test_a_file_that_cannot_be_written_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(HEALTHY), str(SLOW), "--html", where]) == 2
    err = capsys.readouterr().err
    assert where in err and "Traceback" not in err
