"""Tables as columns: what is written is read, and what was changed since is noticed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.records.columns import (
    NUMBER,
    TEXT,
    WHOLE,
    DamagedError,
    Table,
    joined,
    picked,
    read_table,
    table_of,
    write_table,
)

KINDS = {"word": TEXT, "count": WHOLE, "figure": NUMBER}
ROWS = st.lists(
    st.tuples(
        st.none() | st.text(st.characters(codec=None), max_size=6),
        st.none() | st.integers(-(2**62), 2**62),
        st.floats(),
    ),
    max_size=12,
)


def _table(rows: list[tuple[object, ...]]) -> Table:
    return table_of(KINDS, {name: [row[i] for row in rows] for i, name in enumerate(KINDS)})


def _rows(table: Table) -> list[str]:
    words = [table.texts["word"][code] for code in table.arrays["word"].tolist()]
    others = zip(table.arrays["count"].tolist(), table.arrays["figure"].tolist(), strict=True)
    return [repr((word, *other)) for word, other in zip(words, others, strict=True)]


def _plain(rows: list[tuple[object, ...]]) -> list[str]:
    return [repr((word, -1 if count is None else count, figure)) for word, count, figure in rows]


@given(parts=st.lists(ROWS, max_size=4), data=st.data())
@settings(max_examples=60)
def test_what_is_joined_picked_and_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[object, ...]]],
    data: st.DataObject,
) -> None:
    whole = joined(KINDS, [_table(rows) for rows in parts])
    rows = [row for part in parts for row in part]
    assert _rows(whole) == _plain(rows)
    kept = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    some = picked(whole, np.array(kept, dtype=bool))
    path = tmp_path_factory.mktemp("columns") / "rows.npz"
    write_table(path, some)
    again = read_table(path, KINDS, list(KINDS))
    assert _rows(again) == _plain([row for row, keep in zip(rows, kept, strict=True) if keep])


def test_a_file_cut_or_changed_anywhere_is_noticed(tmp_path: Path) -> None:
    table = _table([(f"word {i % 3}", i, i / 7) for i in range(200)])
    path = tmp_path / "rows.npz"
    write_table(path, table)
    good, right = path.read_bytes(), _rows(table)
    for at in range(0, len(good), 37):
        for bad in (good[:at], good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]):
            path.write_bytes(bad)
            try:
                found = _rows(read_table(path, KINDS, list(KINDS)))
            except DamagedError:
                continue
            assert (
                found == right
            )  # a byte that means nothing, such as a time in the zip's directory


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("no table"),
        lambda path: path.mkdir(),
        lambda path: np.savez(path, other=np.arange(3)),
        lambda path: np.savez(path, texts=np.array([{"rows": 1}], dtype=object)),
        lambda path: zipfile.ZipFile(path, "w").writestr("texts.npy", "x"),
        lambda path: _written(path, count=np.arange(3)),
        lambda path: _written(path, word=np.array([0, 7])),
        lambda path: _written(path, word=np.array([0, -1])),
        lambda path: _written(path, figure=np.array(["a", "b"])),
        lambda path: _written(path, count=np.zeros((2, 2), dtype=np.int8)),
        lambda path: _written(
            path, texts=np.frombuffer(b'{"rows": 2, "texts": []}', dtype=np.uint8)
        ),
        lambda path: _written(path, texts=np.frombuffer(b'{"rows": 2, "texts"', dtype=np.uint8)),
    ],
)
def test_a_foreign_file_is_noticed(tmp_path: Path, make: object) -> None:
    path = tmp_path / "rows.npz"
    make(path)  # type: ignore[operator]
    with pytest.raises(DamagedError, match=r"rows\.npz"):
        read_table(path, KINDS, list(KINDS))


def _written(path: Path, **changes: np.ndarray) -> None:
    said = json.dumps({"rows": 2, "texts": {"word": ["a", None]}}).encode()
    arrays = {
        "texts": np.frombuffer(said, dtype=np.uint8),
        "word": np.array([0, 1]),
        "count": np.array([1, 2]),
        "figure": np.array([0.5, 1.5]),
    }
    np.savez(path, **{**arrays, **changes})
