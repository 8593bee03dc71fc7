"""ReFrame's references: Python and JSON text, both ways; what is none is refused by name."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.reframe import (
    ReframeReference,
    parse_reframe,
    recognise,
    render_reframe,
)

ROWS = [
    ReframeReference("daint:gpu", "all_reduce_bw_1GiB", 345.0, -0.05, None, "GB/s"),
    ReframeReference("daint:gpu", "all_gather_bw_8B", 0.001, -0.1, 0.1, "GB/s"),
    ReframeReference("*", "all_reduce_bw_1GiB", 300.0, None, 0.02, None),
]


@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_written_is_read(as_json: bool) -> None:
    text = render_reframe(ROWS, as_json=as_json)
    assert recognise(text)
    assert parse_reframe(text, file="x") == ROWS
    if not as_json:
        scope: dict[str, object] = {}
        exec(text, scope)  # ReFrame reads it as Python
        assert scope["reference"]["daint:gpu"]["all_reduce_bw_1GiB"] == (345.0, -0.05, None, "GB/s")  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        "{'a:b': {'x_bw_1B': (1, None, None, 'GB/s')}}",
        "# a comment\nreference = {'a:b': {'x_bw_1B': (1, None, None, 'GB/s')}}",
        "reference={'a:b': {\n 'x_bw_1B': (1, None, None)}}",
        '{"a:b": {"x_bw_1B": [1, null, null, "GB/s"]}}',
    ],
)
def test_every_way_of_writing_it(text: str) -> None:
    (one,) = parse_reframe(text, file="x")
    assert (one.system, one.name, one.value, one.lower, one.upper) == (
        "a:b",
        "x_bw_1B",
        1.0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no literal"),
        ("reference = ", "not Python"),
        ("reference = f(1)", "no literal"),
        ("import os", "no literal"),
        ("reference = {}\nother = {}", "no literal"),
        ("{}", "no references"),
        ("[]", "no references"),
        ("{'a:b': 3}", "not a mapping"),
        ("{3: {}}", "not a mapping"),
        ("{'a:b': {'x': 3}}", "expected (value, lower, upper, unit)"),
        ("{'a:b': {'x': (1,)}}", "expected (value, lower, upper, unit)"),
        ("{'a:b': {'x': (True, None, None, 'GB/s')}}", "expected (value"),
        ("{'a:b': {'x': (1, 0.05, None, 'GB/s')}}", "lower is 0.05"),
        ("{'a:b': {'x': (1, -2, None, 'GB/s')}}", "lower is -2"),
        ("{'a:b': {'x': (1, None, -0.1, 'GB/s')}}", "upper is -0.1"),
        ("{'a:b': {'x': (1, None, 'much', 'GB/s')}}", "upper is 'much'"),
        ("{'a:b': {'x': (1e999, None, None, 'GB/s')}}", "expected (value"),
        ("{" * 500, ""),
    ],
)
def test_what_is_none_is_bad_input(text: str, said: str) -> None:
    with pytest.raises(UsageError, match="x") as error:
        parse_reframe(text, file="x")
    assert said in str(error.value)
