"""JSON or YAML, strictly."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.documents import read_document


def test_json_keeps_numbers_that_yaml_reads_as_text() -> None:
    assert read_document('{"rate": 1e3}', file="x").data == {"rate": 1000.0}
    assert read_document("rate: 1e3", file="x").data == {"rate": "1e3"}


def test_a_byte_order_mark_and_tabs_are_no_trouble() -> None:
    assert read_document('\ufeff{\t"a":\t[1]}', file="x").data == {"a": [1]}


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{\n"a": 1,\n}', "x.json:3", "not JSON"),
        ('{"a": 1, "a": 2}', "x.json:1", "twice"),
        ('{"a": NaN}', "x.json:1", "no number"),
        ("[" * 40 + "]" * 40, "x.json", "nested too deeply"),
        ("[" * 100_000, "x.json", "nested too deeply"),
        ('["a', "x.json:1", "not JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused(text: str, where: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_document(text, file="x.json")
    assert caught.value.where == where
    assert what in caught.value.message


def test_brackets_in_text_are_not_depth() -> None:
    assert read_document('["' + "[" * 40 + '"]', file="x").data == ["[" * 40]


def test_an_integer_of_thousands_of_digits_is_refused_or_read() -> None:
    try:
        data = read_document("[" + "9" * 20_000 + "]", file="x.json").data
    except UsageError as error:
        assert "not JSON" in error.message
    else:
        assert data[0] > 0
