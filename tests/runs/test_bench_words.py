"""What is typed after ``bench`` for counts and timing modes."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.runs.bench import timings
from clusterlab.runs.plan import count_or_auto


@pytest.mark.parametrize(
    ("text", "launches", "backend", "found"),
    [
        (None, 0, "gloo", ("eager",)),
        (None, 0, "nccl", ("eager",)),
        (None, 3, "nccl", ("graph",)),
        ("eager", 3, "nccl", ("eager",)),
        ("all", 0, "gloo", ("eager",)),
        ("all", 0, "nccl", ("eager", "graph", "direct")),
        ("Graph, direct,graph", 0, "nccl", ("graph", "direct")),
    ],
)
def test_modes_as_typed(
    text: str | None, launches: int, backend: str, found: tuple[str, ...]
) -> None:
    assert timings(text, launches, backend) == found


@pytest.mark.parametrize(
    ("text", "launches", "backend", "message"),
    [
        ("egar", 0, "nccl", "did you mean 'eager'"),
        ("graph", 0, "gloo", "--timing: graph: gloo has no CUDA graphs.*eager, or --backend nccl"),
        (None, 2, "gloo", "-G: graph: gloo has no"),
        (None, -1, "nccl", "-G: -1"),
        ("", 0, "nccl", "--timing"),
    ],
)
def test_modes_that_are_refused(
    text: str | None, launches: int, backend: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        timings(text, launches, backend)


def test_a_count_or_auto() -> None:
    assert (count_or_auto("20", "-n"), count_or_auto(" Auto", "-n")) == (20, None)
    with pytest.raises(UsageError, match="-n: 'many'; expected a whole number, or auto"):
        count_or_auto("many", "-n")
