"""Tables as columns in one file: numbers as arrays, texts as codes into a list of the different ones.

The file is numpy's npz: a reader takes single columns out of it, a checksum stands beside each, and no
pickle is ever read. Files are written once and never changed. They are read with plain reads, never mapped
into memory: a file that another host removes is then an error, not a signal.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterlab.core.errors import UsageError
from clusterlab.records.files import write_atomic
from clusterlab.records.reading import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

TEXT, WHOLE, NUMBER = "text", "whole", "number"
"""Kinds of a column: None is in its texts null, in whole numbers NO_NUMBER, in numbers NaN."""

NO_NUMBER = -1
_TEXTS = "texts"
_MOST_TEXT_BYTES = 1 << 30
_BROKEN = (
    *(OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, MemoryError),
    *(NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, UsageError),
)
"""What numpy and zipfile raise of files that they did not write."""


class DamagedError(Exception):
    """A file of columns that is cut off, changed, gone, or none of ours: ``path``."""

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


@dataclass(slots=True)
class Table:
    """Some rows of columns in memory. ``texts`` holds, for each text column, what its codes mean."""

    rows: int
    arrays: dict[str, Array]
    texts: dict[str, list[str | None]] = field(default_factory=dict)


def table_of(kinds: Mapping[str, str], values: Mapping[str, Sequence[Any]]) -> Table:
    """Plain ``values`` by column as a Table; every column of ``kinds`` equally long."""
    import numpy as np

    arrays: dict[str, Array] = {}
    texts: dict[str, list[str | None]] = {}
    rows = len(next(iter(values.values()))) if values else 0
    for name, kind in kinds.items():
        own = values[name]
        if kind == TEXT:
            known: dict[str | None, int] = {}
            codes = [known.setdefault(value, len(known)) for value in own]
            arrays[name], texts[name] = narrow(np.asarray(codes, dtype=np.int64)), list(known)
        elif kind == WHOLE:
            whole = [NO_NUMBER if value is None else int(value) for value in own]
            arrays[name] = narrow(np.asarray(whole, dtype=np.int64))
        else:
            arrays[name] = np.asarray(own, dtype=np.float64)
    return Table(rows, arrays, texts)


def joined(kinds: Mapping[str, str], tables: Sequence[Table]) -> Table:
    """The rows of ``tables`` one after the other."""
    import numpy as np

    arrays: dict[str, Array] = {}
    texts: dict[str, list[str | None]] = {}
    for name, kind in kinds.items():
        parts = [table.arrays[name] for table in tables]
        if kind == TEXT:
            known: dict[str | None, int] = {}
            for i, table in enumerate(tables):
                again = [known.setdefault(value, len(known)) for value in table.texts[name]]
                if again != list(range(len(again))):
                    parts[i] = narrow(np.asarray(again, dtype=np.int64))[parts[i]]
            texts[name] = list(known)
        none = np.zeros(0, dtype=np.float64 if kind == NUMBER else np.int64)
        arrays[name] = np.concatenate(parts) if parts else none
    return Table(sum(table.rows for table in tables), arrays, texts)


def picked(table: Table, rows: Array) -> Table:
    """Some ``rows`` (a mask, or their numbers) of ``table``."""
    arrays = {name: array[rows] for name, array in table.arrays.items()}
    return Table(len(next(iter(arrays.values()))) if arrays else 0, arrays, table.texts)


def narrow(whole: Array) -> Array:
    """Whole numbers in the fewest bytes that hold them."""
    import numpy as np

    if not len(whole):
        return whole.astype(np.int8)
    low, high = int(whole.min()), int(whole.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return whole.astype(kind)
    return whole.astype(np.int64)


def write_table(path: Path, table: Table) -> None:
    """Write ``table`` to ``path``, which appears whole or not at all. Raises StorageError."""
    import numpy as np

    said = json.dumps({"rows": table.rows, "texts": table.texts}).encode()
    out = io.BytesIO()
    np.savez(out, **{_TEXTS: np.frombuffer(said, dtype=np.uint8)}, **table.arrays)  # type: ignore[arg-type]
    write_atomic(path, out.getvalue())


def read_table(path: Path, kinds: Mapping[str, str], names: Iterable[str]) -> Table:
    """The columns ``names`` of the file. Raises DamagedError where it is not as ``write_table`` left it."""
    import numpy as np

    try:
        with open_regular(path) as stream, np.load(stream, allow_pickle=False) as file:
            if file.zip.getinfo(f"{_TEXTS}.npy").file_size > _MOST_TEXT_BYTES:
                raise DamagedError(path, "too many texts")
            said = json.loads(bytes(file[_TEXTS]))
            rows, texts = int(said["rows"]), dict(said["texts"])
            arrays = {name: file[name] for name in names}
    except _BROKEN as error:
        raise DamagedError(path, error) from None
    for name, array in arrays.items():
        if not _fits(name, kinds[name], array, rows, texts):
            raise DamagedError(path, f"column {name} is not as it was written")
    return Table(rows, arrays, {name: texts[name] for name in arrays if kinds[name] == TEXT})


def _fits(name: str, kind: str, array: Array, rows: int, texts: Mapping[str, Any]) -> bool:
    """A file that was made otherwise may have any shape and any code."""
    fits = array.shape == (rows,) and array.dtype.kind == ("f" if kind == NUMBER else "i")
    if fits and kind == TEXT:
        known = texts.get(name)
        fits = isinstance(known, list) and all(v is None or isinstance(v, str) for v in known)
        fits = fits and (not rows or (array.min() >= 0 and array.max() < len(known or ())))
    return bool(fits)
