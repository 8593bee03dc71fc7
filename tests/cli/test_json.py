"""What ``--json`` prints is JSON, whatever a run holds: no NaN, no infinity."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clusterlab
from clusterlab.cli.main import main
from clusterlab.core.jsontext import json_text
from tests.records.fake_runs import fake_rows, make_run, points

ROOM = Path(clusterlab.__file__).parent
PRINTS = {"print", "echo", "line"}


def strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DATA = st.recursive(PLAIN, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=10)


@given(DATA)
def test_numbers_that_are_none_are_null_and_all_else_stays(data: Any) -> None:
    def same(one: Any, other: Any) -> bool:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
        if isinstance(one, list):
            return len(one) == len(other) and all(map(same, one, other))
        if isinstance(one, float) and not math.isfinite(one):
            return other is None
        return bool(one == other)

    assert same(data, strict(json_text(data)))


def printed_by_json_itself(path: Path) -> list[int]:
    """Lines where json.dumps is printed; in a command's own module anywhere."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        out = name == "write" and ast.unparse(node.func).endswith("stdout.write")
        if out or name in PRINTS or path.parent.name == "cli":
            found += [
                part.lineno
                for part in ast.walk(node)
                if ast.unparse(part).startswith("json.dumps(")
            ]
    return found


def test_every_command_prints_json_by_the_one_way() -> None:
    # Of the lab's own messages between its processes no script is a reader.
    modules = [p for p in ROOM.rglob("*.py") if p.parent.name != "lab" and "_helper" not in p.name]
    talk = {"worker.py", "pmix_bindings.py", "orders.py"}  # lines between two processes of ours
    assert {
        p.relative_to(ROOM).as_posix(): lines
        for p in modules
        if p.name not in talk and (lines := printed_by_json_itself(p))
    } == {}


COMMANDS = [
    "report RUN",
    "compare RUN OTHER",
    "watch RUN --once",
    "runs list --runs ROOT",
    "why RUN",
]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_number_of_a_run_makes_a_command_print_anything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, number: str
) -> None:
    rows = fake_rows(points(["all_gather"], sizes=[1024]))
    run, other = make_run(tmp_path, rows, name="one"), make_run(tmp_path, rows, name="two")
    file = run.path / "run.json"
    file.write_text(file.read_text().replace('"factor": 4', f'"factor": {number}'))
    places = {"RUN": run.path, "OTHER": other.path, "ROOT": tmp_path}
    main([*(str(places.get(word, word)) for word in command.split()), "--json"])
    said = capsys.readouterr()
    if said.out:
        strict(said.out)
    else:
        assert "factor" in said.err or "NaN" in said.err or "infin" in said.err.lower(), said.err
