"""Damaged files are read or refused with one error; nothing ends in a traceback or takes forever.

``CLUSTERLAB_MUTATIONS`` says how many (default 1,500; 20,000 take some minutes).
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.importing.registry import read_any
from tests.support import shared_dir

SEED = 4
MAX_BYTES = 200_000
HUGE = (
    "-1",
    "0",
    "99999999999999999999",
    "1e308",
    "nan",
    "",
    "NV9999",
    "\x00",
    "é",
    "[1-999999999]",
)


def _drop_line(lines: list[str], dice: random.Random) -> None:
    del lines[dice.randrange(len(lines))]


def _repeat_line(lines: list[str], dice: random.Random) -> None:
    lines.insert(dice.randrange(len(lines)), dice.choice(lines))


def _swap_lines(lines: list[str], dice: random.Random) -> None:
    a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]


def _cut(lines: list[str], dice: random.Random) -> None:
    del lines[dice.randrange(len(lines)) + 1 :]
    lines[-1] = lines[-1][: dice.randrange(len(lines[-1]) + 1)]


def _flip(lines: list[str], dice: random.Random) -> None:
    at = dice.randrange(len(lines))
    place = dice.randrange(len(lines[at]) + 1)
    lines[at] = lines[at][:place] + chr(dice.randrange(1, 127)) + lines[at][place + 1 :]


def _number(lines: list[str], dice: random.Random) -> None:
    at = dice.randrange(len(lines))
    numbers = list(re.finditer(r"\d+", lines[at]))
    if numbers:
        found = dice.choice(numbers)
        lines[at] = lines[at][: found.start()] + dice.choice(HUGE) + lines[at][found.end() :]


def _word(lines: list[str], dice: random.Random) -> None:
    at = dice.randrange(len(lines))
    words = lines[at].split(" ")
    words[dice.randrange(len(words))] = dice.choice(dice.choice(lines).split(" "))
    lines[at] = " ".join(words)


MUTATIONS: tuple[Callable[[list[str], random.Random], None], ...] = (
    _drop_line,
    _repeat_line,
    _swap_lines,
    _cut,
    _flip,
    _number,
    _word,
)


def test_no_mutated_sample_ends_in_a_traceback() -> None:
    folder = shared_dir() / "samples"
    samples = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.suffix not in (".src", ".csv")
        and path.stat().st_size < MAX_BYTES
    ]
    dice = random.Random(SEED)
    count = int(os.environ.get("CLUSTERLAB_MUTATIONS", "1500"))
    ends: Counter[str] = Counter()
    for number in range(count):
        path = samples[number % len(samples)]
        ends[_read(path, dice, number)] += 1
    print(dict(ends))
    assert ends["read"] > count // 10
    assert ends["refused"] > count // 100


def _read(path: Path, dice: random.Random, number: int) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for _ in range(dice.choice((1, 1, 2, 5))):
        if lines:
            dice.choice(MUTATIONS)(lines, dice)
    text = "\n".join(lines)
    try:
        imported = read_any(text, file=path.name)
        if number % 10 == 0:
            check(imported.fabric)
            fabric_to_yaml(imported.fabric)
    except UsageError:
        return "refused"
    except Exception as error:
        error.add_note(f"{path.parent.name}/{path.name}, mutation {number}")
        raise
    return "read"
