"""Plain data to typed values, one function per shape; what has no such shape raises UsageError.

YAML writes ``cpus: 0`` as a number and ``version: 22.05`` as a float: both are read as what was meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from clusterlab.core.errors import UsageError

MAX_CPU = 65_536
MAX_ITEMS = 65_536
MAX_TEXT = 65_536
_MOST_BITS = 8192  # of a number in YAML (0xfff…): Python writes out at most 4300 digits
_MOST_CPUS_NAMED = 2 * MAX_CPU  # by all ranges of one list together, repeated or not

_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_CPU_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6})(?::([0-9]{1,4}))?)?")


class Fields:
    """The fields of one mapping, each asked for by name and shape. ``where`` names it in errors."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise UsageError(shown(data), where=where, expected="a mapping")
        self._data = data
        self.where = where

    def get(self, name: str) -> Any:
        """The value as it stands; None where absent."""
        return self._data.get(name)

    def text(self, name: str) -> str | None:
        """Text; numbers are written out."""
        value = self.get(name)
        return None if value is None else self._text_of(value, name)

    def number(self, name: str) -> int | None:
        """A whole number, also as text."""
        return whole(self.get(name), f"{self.where}.{name}")

    def flag(self, name: str) -> bool | None:
        """true or false."""
        value = self.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(name, "true or false")

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers."""
        items = self.items(name)
        if items is None:
            return None
        read = [whole(v, f"{self.where}.{name}[{i}]") for i, v in enumerate(items)]
        if any(v is None for v in read):
            raise self._wrong(name, "a list of whole numbers")
        return tuple(v for v in read if v is not None)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts."""
        items = self.items(name)
        return None if items is None else tuple(self._text_of(v, name) for v in items)

    def devices(self, name: str) -> tuple[str, ...] | None:
        """A list of PCI addresses or UUIDs, the former in one spelling."""
        texts = self.texts(name)
        return None if texts is None else tuple(normal_pci(t) for t in texts)

    def cpus(self, name: str) -> frozenset[int] | None:
        """A CPU list such as ``0-13,28``."""
        value = self.get(name)
        return None if value is None else cpu_set(value, f"{self.where}.{name}")

    def environment(self, name: str) -> dict[str, str] | None:
        """Variables and their values; a null one is unset."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(name, "variables and their values")
        return {str(k): self._text_of(v, f"{name}.{k}") for k, v in value.items() if v is not None}

    def items(self, name: str) -> Sequence[Any] | None:
        """A list, of any values."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or len(value) > MAX_ITEMS:
            raise self._wrong(name, f"a list of at most {MAX_ITEMS}")
        return value

    def _text_of(self, value: Any, name: str) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return f"{value:.2f}"  # Slurm's 22.05, which YAML reads as a number
        if isinstance(value, int) and value.bit_length() <= _MOST_BITS:
            return str(value)
        if isinstance(value, str) and len(value) <= MAX_TEXT:
            return value
        raise self._wrong(name, "text")

    def _wrong(self, name: str, expected: str) -> UsageError:
        value = shown(self._data.get(name))
        return UsageError(value, where=f"{self.where}.{name}", expected=expected)


def whole(value: Any, where: str) -> int | None:
    """A whole number of at most 18 digits; None for None."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        if value is not None and abs(value) >= 10**18:
            raise UsageError(shown(value), where=where, expected="a whole number")
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip(), re.ASCII):
        return int(value)
    raise UsageError(shown(value), where=where, expected="a whole number")


def normal_pci(text: str) -> str:
    """``00000000:1B:00.0`` and ``1b:00.0`` as ``0000:1b:00.0``; anything else as it is."""
    match = _PCI.fullmatch(text.strip())
    if match is None:
        return text.strip()
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def cpu_set(value: Any, where: str) -> frozenset[int]:
    """``0-13,28`` (or 0, or a list of numbers) as a set; strides ``0-14:2`` as in the kernel's lists."""
    if isinstance(value, list):
        value = ",".join(shown(v) if isinstance(v, int) else str(v) for v in value[:MAX_CPU])
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise UsageError(shown(value), where=where, expected="CPUs such as 0-13,28")
    text = value if isinstance(value, str) else shown(value)
    try:
        return _cpus_of(text)
    except ValueError as error:
        raise UsageError(shown(value), where=where, expected=str(error)) from None


@lru_cache(maxsize=1024)  # many ranks have the same
def _cpus_of(text: str) -> frozenset[int]:
    found: set[int] = set()
    named = 0
    for part in text.split(","):
        if not part.strip():
            continue
        match = _CPU_RANGE.fullmatch(part.strip())
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        stride = int(match[3] or 1) if match else 1
        if match is None or last < first or last >= MAX_CPU or stride < 1:
            raise ValueError("CPUs such as 0-13,28")
        named += (last - first) // stride + 1
        if named > _MOST_CPUS_NAMED:
            raise ValueError(f"at most {_MOST_CPUS_NAMED} CPUs named")
        found.update(range(first, last + 1, stride))
    return frozenset(found)


def shown(value: Any) -> str:
    """``value`` short enough for an error."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, (str, bytes)):
        value = value[:100]
    try:
        text = repr(value)
    except ValueError:  # such a number inside a list or mapping
        text = f"a {type(value).__name__} with a number of more than 4300 digits in it"
    return text if len(text) <= 60 else text[:57] + "…"
