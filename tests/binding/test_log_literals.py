"""What a pattern's matches must contain, and which lines have it."""

from __future__ import annotations

import re

import pytest

from clusterlab.binding.log_literals import candidates, index_of, required_texts
from clusterlab.binding.log_patterns import PATTERNS


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("Alpha|beta gamma", (b"alpha", b"beta gamma")),
        (r"a files? over there", (b" over there",)),
        (r"ab*c{2}defgh\(x\)", (b"defgh(x)",)),
        (r"(?:alpha|omega)\d+", (b"alpha", b"omega")),
        (r"(alpha)?\d+", None),
        (r"(?!alpha)\d+", None),
        (r"[a-z|]alphas", (b"alphas",)),
        ("abc|alphas", None),
        (r"\d+", None),
    ],
)
def test_required_texts(pattern: str, texts: tuple[bytes, ...] | None) -> None:
    assert required_texts(pattern) == texts


def test_no_pattern_has_to_run_on_every_line() -> None:
    _, always = index_of([pattern.text for pattern in PATTERNS])
    assert [PATTERNS[n].name for n in always] == []


def test_candidates_are_the_lines_with_the_text_in_any_case() -> None:
    lines = [b"nothing", b"An ALPHA here, alpha", b"", b"omega"]
    assert candidates(lines, {b"alpha": [0], b"omega": [1, 2]}, []) == {1: {0}, 3: {1, 2}}
    assert candidates(lines, {b"omega": [1]}, [7]) == {0: {7}, 1: {7}, 2: {7}, 3: {1, 7}}


def test_every_text_that_matches_a_pattern_is_a_candidate_for_it() -> None:
    from tests.binding.test_log_errors import TEXTS

    texts, always = index_of([pattern.text for pattern in PATTERNS])
    for line, _ in TEXTS:
        possible = candidates([line.encode()], texts, always).get(0, set())
        matching = {i for i, p in enumerate(PATTERNS) if re.search(p.text, line, re.IGNORECASE)}
        assert matching
        assert matching <= possible
