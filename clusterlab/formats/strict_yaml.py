"""YAML to plain data, strictly: no aliases, no tags, no duplicate keys, bounded depth and size.

Every error names file and line. ``Document.line`` tells later checks where a field stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from clusterlab.core.errors import UsageError

MAX_BYTES = 8 << 20
MAX_DEPTH = 32

Path = tuple[str | int, ...]

_PLAIN = {f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null")}


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data (dict, list, str, int, float, bool, None) and the line where each part begins."""

    data: Any
    file: str
    lines: dict[Path, int]

    def where(self, *path: str | int) -> str:
        """``file:line: a.b[2]``: the nearest part of the document that holds ``path``."""
        known = path
        while known not in self.lines:
            known = known[:-1]
        field = dotted(path)
        place = f"{self.file}:{self.lines[known]}"
        return f"{place}: {field}" if field else place


def dotted(path: Path) -> str:
    """``("hosts", "wiring", 2)`` as ``hosts.wiring[2]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _loader() -> Any:
    """libyaml's loader where PyYAML was built with it: ten times as fast, the same nodes and marks."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str, *, file: str) -> Document:
    """The one document in ``text``. Raises UsageError naming ``file`` and line."""
    import yaml

    if len(text) > MAX_BYTES:
        raise UsageError(
            f"{len(text)} characters of YAML", where=file, expected=f"at most {MAX_BYTES}"
        )
    try:
        _reject_tricks(text, file)
        node = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"not YAML: {error.problem}", where=f"{file}{line}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"not YAML: {str(error).splitlines()[0]}", where=file) from None
    if node is None:
        raise UsageError("empty", where=file, expected="a YAML mapping")
    lines: dict[Path, int] = {}
    return Document(_plain(node, (), lines, file), file, lines)


def _reject_tricks(text: str, file: str) -> None:
    """Refuse what makes a small file large or deep before anything is built from it."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise UsageError(
                "anchors and aliases are not read",
                where=f"{file}:{line}",
                expected="each part written out",
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise UsageError(
                "nested too deeply", where=f"{file}:{line}", expected=f"{MAX_DEPTH} levels"
            )


def _plain(node: Any, path: Path, lines: dict[Path, int], file: str) -> Any:
    import yaml

    line = node.start_mark.line + 1
    lines[path] = line
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child, (*path, i), lines, file) for i, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, child in node.value:
            key = _key(key_node, file)
            if key in mapping:
                raise UsageError(
                    f"key {key!r} twice", where=f"{file}:{key_node.start_mark.line + 1}"
                )
            mapping[key] = _plain(child, (*path, key), lines, file)
            lines[(*path, key)] = key_node.start_mark.line + 1
        return mapping
    return _scalar(node, file)


@cache
def _constructor() -> Any:
    import yaml

    return yaml.constructor.SafeConstructor()


def _key(node: Any, file: str) -> str:
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        raise UsageError("a key that is not a word", where=f"{file}:{node.start_mark.line + 1}")
    return str(node.value)


def _scalar(node: Any, file: str) -> Any:
    import yaml

    where = f"{file}:{node.start_mark.line + 1}"
    if node.tag not in _PLAIN:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        raise UsageError(
            f"a value of type {kind}", where=where, expected="text, a number, true, false or null"
        )
    try:
        return _constructor().construct_object(node)
    except (yaml.YAMLError, ValueError):
        raise UsageError(f"not a value: {node.value!r}", where=where) from None
