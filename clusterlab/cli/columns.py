"""Lines of a table for the terminal: columns keep two spaces between them, however long a figure is."""

from __future__ import annotations

from collections.abc import Sequence

GAP = "  "


def columns(rows: Sequence[Sequence[str]], layout: Sequence[str], *, indent: str = "") -> list[str]:
    """One line a row. ``layout``: ``<`` or ``>`` of each column and its least width, as ``>9``; a column
    is as wide as its longest cell. Nothing stands at a line's end.
    """
    widths = [
        max(int(column[1:]), *(len(row[i]) for row in rows)) for i, column in enumerate(layout)
    ]
    return [
        (
            indent
            + GAP.join(
                f"{cell:{column[0]}{width}}"
                for cell, column, width in zip(row, layout, widths, strict=True)
            )
        ).rstrip()
        for row in rows
    ]
