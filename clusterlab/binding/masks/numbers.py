"""Numbers as C reads them from the front of a string, whatever follows."""

from __future__ import annotations

import re

from clusterlab.core.digits import saturated

# isspace() of the C locale, then what strtol takes: a sign and digits. ASCII only: "１" is no digit.
_DECIMAL = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_ANY_BASE = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")

_LONG_MAX = 2**63 - 1
_LONG_MIN = -(2**63)


def leading_int32(text: str) -> int | None:
    """``(int)strtol(text, …, 10)``: saturated at 64 bits, then cut to 32; None without a digit."""
    match = _DECIMAL.match(text)
    return None if match is None else _signed_int32(match[1], saturated(match[2]))


def whole_int32(text: str) -> int | None:
    """``(int)strtol(text, &end, 0)`` where it must end at the string's end: 12, 0x1f, 017; else None."""
    match = _ANY_BASE.fullmatch(text)
    if match is None:
        return 0 if text == "" else None
    digits = match[2]
    octal = digits.startswith("0") and digits[1:2] not in ("x", "X") and len(digits) > 1
    power_of_two = octal or digits[1:2] in ("x", "X")
    value = int(digits, 8 if octal else 0) if power_of_two else saturated(digits)
    return _signed_int32(match[1], value)


def _signed_int32(sign: str, magnitude: int) -> int:
    value = min(max(-magnitude if sign == "-" else magnitude, _LONG_MIN), _LONG_MAX)
    return (value + 2**31) % 2**32 - 2**31
