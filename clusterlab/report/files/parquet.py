"""Rows as a Parquet file, for whoever reads many runs by columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import SCHEMA_VERSION, Row
from clusterlab.records.strict import json_types
from clusterlab.records.target import write_target


def write_parquet(path: Path, runs: Sequence[tuple[str, Sequence[Row]]]) -> int:
    """Write the rows of ``runs`` (name and rows) to ``path``, atomically; how many.

    One column per field of the schema with the field's own type, before them ``run_id``; null where not
    known. Raises UsageError without pyarrow, StorageError when it cannot be written.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError(
            "pyarrow is not installed",
            where="--parquet",
            expected="the extra that writes Parquet",
            fix="pip install 'clusterlab[parquet]', or take --csv",
        ) from None
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    every = [row for _, rows in runs for row in rows]
    names = [name.encode("utf-8", "replace").decode() for name, rows in runs for _ in rows]
    columns = {"run_id": pa.array(names, pa.string())}
    for name, allowed in json_types(Row).items():
        plain = next((kinds[kind] for kind in allowed if kind in kinds), pa.list_(pa.int64()))
        values = [getattr(row, name) for row in every]
        if plain == pa.string():
            # Half a surrogate pair, as a host's name may hold, is no text that others can read.
            values = [v if v is None else v.encode("utf-8", "replace").decode() for v in values]
        columns[name] = pa.array(values, plain)
    table = pa.table(columns, metadata={"clusterlab_schema_version": str(SCHEMA_VERSION)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    write_target(path, sink.getvalue().to_pybytes())
    return len(every)
