"""Reading the files of a run, which may be anything by now: regular files only, JSON with clear errors."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from clusterlab.core.errors import UsageError


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """``path``, open to read; ``follow``: also where it is a link. Raises UsageError for a pipe or a device,
    which nobody may ever write to, or which has no end; OSError for what cannot be opened.
    """
    # Opened before it is looked at, without waiting for a writer: what is looked at is what is read.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise UsageError("no regular file", where=str(path), expected="a file as clusterlab wrote it")


def read_regular(path: Path, *, most_bytes: int | None = None) -> bytes:
    """What is in ``path``. Raises UsageError as ``open_regular``, and for more than ``most_bytes``."""
    with open_regular(path) as file:
        content = file.read() if most_bytes is None else file.read(most_bytes + 1)
    if most_bytes is not None and len(content) > most_bytes:
        raise UsageError("too large", where=str(path), expected=f"at most {most_bytes} B")
    return content


def is_there(path: Path) -> bool:
    """Whether anything is at ``path``. Raises UsageError where nobody can tell: no access, a lost server."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path)) from None
    return True


def read_json(path: Path) -> Any:
    """The JSON document in ``path``. Raises UsageError naming the line at fault."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path)) from None
    return parse_json(content, where=str(path))


def parse_json(content: bytes, *, where: str) -> Any:
    """The JSON document ``content``. Raises UsageError naming ``where`` and the line at fault."""
    try:
        return json.loads(content)
    except RecursionError:
        raise UsageError("not JSON: nested too deeply", where=where) from None
    except json.JSONDecodeError as error:
        raise UsageError(
            f"not JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}"
        ) from None
    except UnicodeDecodeError:
        raise UsageError("not JSON: not UTF-8 text", where=where) from None
    except ValueError:
        raise too_many_digits(where) from None


NOT_JSON = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
"""What ``json.loads`` raises of half a line. A plain ValueError is of numbers too long to be converted."""


def too_many_digits(where: str) -> UsageError:
    """Of a number that ``json.loads`` does not convert (``sys.get_int_max_str_digits``)."""
    return UsageError(
        "a number of thousands of digits", where=where, expected="numbers of at most 64 bits"
    )
