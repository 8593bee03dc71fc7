"""Rows as a pandas table."""

from __future__ import annotations

import pandas as pd

from clusterlab.core.rows import Row
from clusterlab.records.frame import rows_frame
from tests.records.fake_runs import fake_rows, points


def test_every_row_is_a_line_and_every_field_a_column() -> None:
    rows = fake_rows(points(["all_reduce", "broadcast"]))
    frame = rows_frame(rows)
    assert list(frame.columns) == list(Row.__dataclass_fields__)
    assert len(frame) == len(rows)
    medians = frame.groupby("collective").ratio.median()
    assert 0.8 < medians["all_reduce"] < 1.2
    assert pd.isna(frame.op[len(frame) - 1])


def test_no_rows_are_an_empty_table_with_its_columns() -> None:
    assert list(rows_frame([]).columns) == list(Row.__dataclass_fields__)
