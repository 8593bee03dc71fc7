"""The same question answered the slow, obvious way: one character at a time, no shared code."""

from __future__ import annotations

SPACES = " \t\n\v\f\r"
DIGITS = "0123456789"
HEX = "0123456789abcdef-"


def read_int(text: str) -> int | None:
    """C's (int)strtol(text, 0, 10), or None where it finds no digits."""
    i = 0
    while i < len(text) and text[i] in SPACES:
        i += 1
    negative = False
    if i < len(text) and text[i] in "+-":
        negative = text[i] == "-"
        i += 1
    seen = False
    value = 0
    while i < len(text) and text[i] in DIGITS:
        value = 10 * value + DIGITS.index(text[i])
        seen = True
        i += 1
    if not seen:
        return None
    if negative:
        value = -value
    value = min(value, 9223372036854775807)
    value = max(value, -9223372036854775808)
    value = value & 0xFFFFFFFF  # the low 32 bits …
    return value - 0x100000000 if value & 0x80000000 else value  # … as a signed number


def read_uuid(text: str, uuids: list[str]) -> int | None:
    if text[:4] != "GPU-":
        return None
    wanted = text[4:].lower()
    for char in wanted:
        if char not in HEX:
            return None
    answer = None
    for i, uuid in enumerate(uuids):
        if uuid[4 : 4 + len(wanted)].lower() == wanted:
            if answer is not None:
                return None
            answer = i
    return answer


def cut_at_commas(mask: str) -> list[str]:
    entries = [""]
    for char in mask:
        if char == ",":
            entries.append("")
        else:
            entries[-1] += char
    return entries


def slow_cuda(mask: str | None, uuids: list[str]) -> tuple[int, list[int]]:
    """(what cuInit returns, the devices)."""
    devices: list[int] = []
    if mask is None:
        devices = list(range(len(uuids)))
    else:
        entries = cut_at_commas(mask)
        names = entries[0][:4] == "GPU-"
        for entry in entries:
            if names:
                device = read_uuid(entry, uuids)
            else:
                device = read_int(entry)
                if device is not None and (device < 0 or device >= len(uuids)):
                    device = None
            if device is None:
                break
            if device in devices:
                return 101, []
            devices.append(device)
    return (0, devices) if devices else (100, [])
