"""Rows as a pandas table, for analysis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from clusterlab.core.rows import Row, row_to_json

if TYPE_CHECKING:
    import pandas as pd


def rows_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """One line per row, one column per field of the schema; what is not known is missing."""
    import pandas as pd

    return pd.DataFrame([row_to_json(row) for row in rows], columns=list(Row.__dataclass_fields__))
