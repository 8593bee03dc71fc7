"""XML as plain elements that know their line; entities are refused, and size and depth are bounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.sax.handler import ContentHandler, ErrorHandler
from xml.sax.xmlreader import AttributesImpl

from defusedxml.common import DefusedXmlException, DTDForbidden, EntitiesForbidden
from defusedxml.expatreader import DefusedExpatParser

from clusterlab.core.errors import UsageError

MAX_BYTES = 64 * 2**20
MAX_ELEMENTS = 500_000
MAX_DEPTH = 200

_LOOKED_AT = 200_000  # characters in which a licence comment and the first tag stand
_TAG = re.compile(r"<([A-Za-z_][\w.-]*)([^<>]*)>")


@dataclass(slots=True)
class Element:
    """One element: its attributes as written, its children in order, the text directly inside it."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the document's order."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(reversed(element.children))


def parse_xml(text: str, *, file: str, allow_doctype: bool = False) -> Element:
    """The root element of ``text``.

    Raises UsageError (``file:line``) for what is not well-formed XML, for entities, for a document type
    unless ``allow_doctype`` (it is never fetched), and for documents beyond the limits above.
    """
    if len(text) > MAX_BYTES:
        raise UsageError(
            f"{len(text)} characters of XML", where=file, expected=f"at most {MAX_BYTES}"
        )
    parser = DefusedExpatParser(forbid_dtd=not allow_doctype, forbid_external=not allow_doctype)
    builder = _Builder(file, parser.getLineNumber)
    parser.setFeature("http://xml.org/sax/features/external-general-entities", False)
    parser.setFeature("http://xml.org/sax/features/external-parameter-entities", False)
    parser.setContentHandler(builder)
    parser.setErrorHandler(_Errors(file))
    try:
        parser.feed(text)
        parser.close()
    except DTDForbidden:
        raise UsageError(
            "a document type declaration", where=f"{file}:{builder.line}", expected="none"
        ) from None
    except (EntitiesForbidden, DefusedXmlException):
        raise UsageError(
            "an entity declaration",
            where=f"{file}:{builder.line}",
            expected="plain XML without entities",
        ) from None
    except UnicodeEncodeError:
        raise UsageError("bytes that are not UTF-8", where=file, expected="a text file") from None
    if builder.root is None:
        raise UsageError("no XML element", where=file, expected="an XML document")
    return builder.root


def first_tag(text: str) -> tuple[str, str] | None:
    """The first element's name and the text of its attributes, read cheaply; None where no XML begins."""
    rest = text[:_LOOKED_AT].lstrip("\ufeff")
    while True:
        rest = rest.lstrip()
        if rest.startswith("<!--"):
            rest = rest[4:].partition("-->")[2]
        elif rest.startswith(("<?", "<!")):
            rest = rest.partition(">")[2]
        else:
            break
    found = _TAG.match(rest)
    return (found.group(1), found.group(2)) if found else None


def without_comments(text: str) -> str:
    """``text`` with every comment blanked out, lines kept."""
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts += [text[at:start], "\n" * text.count("\n", start, end)]
        at = end + 3
    return "".join(parts) + text[at:]


class _Builder(ContentHandler):
    def __init__(self, file: str, line_now: Callable[[], int | None]) -> None:
        super().__init__()
        self.root: Element | None = None
        self._file = file
        self._line_now = line_now
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0

    @property
    def line(self) -> int:
        return self._line_now() or 1

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        element = Element(name, dict(attrs.items()), self.line)
        self._count += 1
        if self._count > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            raise UsageError(
                "too many elements, or nested too deeply",
                where=f"{self._file}:{self.line}",
                expected=f"at most {MAX_ELEMENTS} elements, {MAX_DEPTH} deep",
            )
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def endElement(self, name: str) -> None:
        del name
        self._open.pop().text = "".join(self._texts.pop())

    def characters(self, content: str) -> None:
        if self._texts:
            self._texts[-1].append(content)


class _Errors(ErrorHandler):
    def __init__(self, file: str) -> None:
        self._file = file

    def fatalError(self, exception: BaseException) -> NoReturn:
        line = getattr(exception, "getLineNumber", lambda: None)()
        said = getattr(exception, "getMessage", lambda: str(exception))()
        raise UsageError(
            f"not well-formed XML: {said}",
            where=f"{self._file}:{line}" if line else self._file,
            expected="a whole XML document",
        )

    def error(self, exception: BaseException) -> NoReturn:
        self.fatalError(exception)
