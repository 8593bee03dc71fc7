"""XML as elements with lines, and the documents that are refused."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats import xml_tree
from clusterlab.formats.xml_tree import parse_xml


def test_elements_keep_their_line_order_attributes_and_text() -> None:
    root = parse_xml('<a x="1">\nt<b/>\n\n<c\n y="2">u</c></a>', file="f.xml")
    assert [(e.tag, e.line, e.text.strip()) for e in root.walk()] == [
        ("a", 1, "t"),
        ("b", 2, ""),
        ("c", 4, "u"),
    ]
    assert [dict(e.attributes) for e in root.walk()] == [{"x": "1"}, {}, {"y": "2"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.xml:1: not well-formed XML"),
        ("<a>\n<b></a>", "f.xml:2: not well-formed XML: mismatched tag"),
        ("<a>\n", "f.xml:2: not well-formed XML: no element found"),
        ("plain text", "f.xml:1: not well-formed XML"),
        ("\x00<a/>", "f.xml:1: not well-formed XML"),
        ("<a>\ud800</a>", "f.xml: bytes that are not UTF-8"),
        ('<!DOCTYPE a SYSTEM "a.dtd">\n<a/>', "f.xml:1: a document type declaration"),
        ("<a>" * 300, "nested too deeply"),
    ],
)
def test_what_is_no_plain_xml_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"f\.xml") as caught:
        parse_xml(text, file="f.xml")
    assert said in str(caught.value)


def test_entities_are_refused_even_where_a_document_type_is_allowed() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;">]>\n<a>&c;</a>'
    with pytest.raises(UsageError, match="an entity declaration"):
        parse_xml(bomb, file="f.xml", allow_doctype=True)


def test_a_document_type_is_passed_over_and_not_fetched_where_allowed() -> None:
    text = '<!DOCTYPE topology SYSTEM "http://192.0.2.1/hwloc2.dtd"><topology/>'
    assert parse_xml(text, file="f.xml", allow_doctype=True).tag == "topology"


def test_a_document_of_absurd_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_tree, "MAX_ELEMENTS", 10)
    with pytest.raises(UsageError, match="too many elements"):
        parse_xml("<a>" + "<b/>" * 10 + "</a>", file="f.xml")
    monkeypatch.setattr(xml_tree, "MAX_BYTES", 10)
    with pytest.raises(UsageError, match="characters of XML"):
        parse_xml("<a>123456789</a>", file="f.xml")
