from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.runs.sweeping.typed_groups import pattern_typed, uneven_typed


def test_a_file_is_kept_as_its_shape(tmp_path: Path) -> None:
    file = tmp_path / "traffic.txt"
    file.write_text("100 200\n300 0\n")
    assert uneven_typed(str(file)) == "matrix:1 2/3 0"
    file.write_text("100 200\n300\n")
    with pytest.raises(UsageError, match=r"traffic.txt: line 2: 1 numbers"):
        uneven_typed(str(file))


@pytest.mark.parametrize("text", ["linear", "hot:0.5", "random:3", "matrix:1 2/3 4"])
def test_names_are_names(text: str) -> None:
    assert uneven_typed(text) == text
    assert uneven_typed(None) is None


@pytest.mark.parametrize("text", ["no/such/file", "\0", "x" * 5000, "/", "hot", ""])
def test_neither_name_nor_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--uneven"):
        uneven_typed(text)


def test_patterns_as_typed() -> None:
    assert pattern_typed(None, one_by_one=False) == "all"
    assert pattern_typed("rail", one_by_one=True) == "rail_one_by_one"
    for text, alone in (("pairs", False), ("all", True), (None, True), ("racks", False)):
        with pytest.raises(UsageError):
            pattern_typed(text, one_by_one=alone)
