"""Rows as a pandas DataFrame, for whoever wants to group, pivot or join them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from clusterlab.core.rows import Row

if TYPE_CHECKING:
    import pandas as pd


def rows_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """One line per row, one column per field of ``core.rows.Row``, in its order."""
    import pandas as pd

    return pd.DataFrame([asdict(row) for row in rows], columns=list(Row.__dataclass_fields__))
