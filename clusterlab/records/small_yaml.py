"""Small YAML documents as clusterlab writes them: of bounded size and depth, without aliases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from clusterlab.core.errors import UsageError
from clusterlab.records.reading import read_regular

MOST_BYTES = 1 << 20
MOST_DEPTH = 32

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML has it: many times as fast."""


def read_small_yaml(path: Path) -> Any:
    """The plain data in ``path``. Raises UsageError naming the file, and the line where one is at fault."""
    where = str(path)
    try:
        text = read_regular(path, most_bytes=MOST_BYTES).decode()
        _refuse_tricks(text, where)
        return yaml.load(text, Loader=_Loader)
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=where) from None
    except UnicodeDecodeError:
        raise UsageError("not YAML: not UTF-8 text", where=where) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}:{mark.line + 1}" if mark else where
        raise UsageError(f"not YAML: {error.problem}", where=place) from None
    except yaml.YAMLError as error:
        raise UsageError(f"not YAML: {str(error).splitlines()[0]:.100}", where=where) from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        # A number of thousands of digits, a date that is none, a key that is a list.
        raise UsageError(
            f"not a value: {error!s:.100}", where=where, expected="text and numbers"
        ) from None


def _refuse_tricks(text: str, where: str) -> None:
    """What makes a small file large or deep, before anything is built from it."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        place = f"{where}:{event.start_mark.line + 1}" if event.start_mark else where
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise UsageError(
                "anchors and aliases are not read", where=place, expected="each part written out"
            )
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise UsageError(
                "nested too deeply", where=place, expected=f"at most {MOST_DEPTH} levels"
            )
