"""What is asked of the history: which runs, which rows, from the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from clusterlab.core.collectives import COLLECTIVES, collective
from clusterlab.core.dtypes import dtype as dtype_named
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.sizes import parse_size
from clusterlab.core.suggest import unknown
from clusterlab.verdict.against.noise import BANDS, LARGE_FROM, SMALL_BELOW

_BANDS = {
    "small": (0, SMALL_BELOW - 1),
    "mid": (SMALL_BELOW, LARGE_FROM - 1),
    "large": (LARGE_FROM, 1 << 62),
}
_TIMINGS = ("eager", "graph", "direct")
_AGO = re.compile(r"(\d{1,5})\s*([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Filters:
    """Empty: anything. Words with ``*`` and ``?`` are patterns. ``sizes`` are ranges of bytes, both ends
    included; ``since_s`` to ``until_s`` are seconds since 1970. ``link``: two hosts (``A,B``), or what a
    prediction or finding names. ``verdicts`` are of runs in a list of runs, else of rows.
    """

    clusters: tuple[str, ...] = ()
    fabrics: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    since_s: int | None = None
    until_s: int | None = None
    collectives: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    timings: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    groups: tuple[str, ...] = ()
    link: str | None = None
    verdicts: tuple[str, ...] = ()

    @property
    def of_rows(self) -> bool:
        """Whether rows have to be looked at, not runs alone."""
        return bool(
            self.collectives or self.dtypes or self.timings or self.backends or self.sizes
            or self.groups or self.link
        )  # fmt: skip

    @property
    def link_hosts(self) -> tuple[str, str] | None:
        """The two hosts that ``link`` names."""
        first, comma, second = (self.link or "").partition(",")
        return (first.strip(), second.strip()) if comma else None


def filters(
    *,
    cluster: str = "",
    fabric: str = "",
    name: str = "",
    kind: str = "",
    host: str = "",
    since: str = "",
    until: str = "",
    collective: str = "",
    dtype: str = "",
    timing: str = "",
    backend: str = "",
    size: str = "",
    group: str = "",
    link: str = "",
    verdict: str = "",
    now: datetime | None = None,
) -> Filters:
    """Lists are separated by commas. Raises UsageError naming the option."""
    moment = now or datetime.now(UTC)
    found = Filters(
        clusters=_words(cluster),
        fabrics=_words(fabric),
        names=_words(name),
        kinds=_words(kind),
        hosts=_words(host),
        since_s=_when(since, "--since", moment, end=False),
        until_s=_when(until, "--until", moment, end=True),
        collectives=tuple(_collective(word) for word in _words(collective)),
        dtypes=tuple(dtype_named(word).name for word in _words(dtype)),
        timings=_known(timing, _TIMINGS, "--timing"),
        backends=_words(backend),
        sizes=tuple(_sizes(word) for word in _words(size)),
        groups=(group.strip(),) if group.strip() else (),  # ranks have commas of their own
        link=link.strip() or None,
        verdicts=_known(verdict, [v.value for v in Verdict], "--verdict"),
    )
    if None not in {found.since_s, found.until_s} and (found.since_s or 0) > (found.until_s or 0):
        raise UsageError(f"{until!r} is before {since!r}", where="--until", expected="a later time")
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _known(text: str, known: Sequence[str], where: str) -> tuple[str, ...]:
    words = tuple(word.replace("-", "_") for word in _words(text))
    for word in words:
        if word not in known:
            raise unknown("word", word, known, where=where)
    return words


def _collective(word: str) -> str:
    return word if word in COLLECTIVES else collective(word).name


def _sizes(word: str) -> tuple[int, int]:
    """``1M``, ``64K:1G``, ``1M:``, or a band."""
    if word in BANDS:
        return _BANDS[word]
    low, colon, high = word.partition(":")
    first = parse_size(low, where="--size") if low else 0
    if not colon:
        return first, first
    last = parse_size(high, where="--size") if high else 1 << 62
    if last < first:
        raise UsageError(f"{word!r}", where="--size", expected="the smaller size first: 64K:1G")
    return first, last


def _when(text: str, where: str, now: datetime, *, end: bool) -> int | None:
    """Seconds since 1970 of ``2026-11-30``, ``2026-11-30T12:00``, ``7d`` (ago); a day's end for ``end``."""
    text = text.strip()
    if not text:
        return None
    if ago := _AGO.fullmatch(text):
        try:
            return int((now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).timestamp())
        except OverflowError:
            pass
    try:
        moment = datetime.fromisoformat(text)
        whole_day = end and re.fullmatch(r"\d{4}-?\d\d-?\d\d", text) is not None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp()) + (86399 if whole_day else 0)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r}",
            where=where,
            expected="a day or a time (UTC) as 2026-11-30 or 2026-11-30T12:00, or how long ago: 12h, 7d, 4w",
        ) from None


def like(value: str | None, patterns: Sequence[str], *, part: bool = False) -> bool:
    """Whether a value is one of the words or patterns; ``part``: or holds one of the words."""
    if value is None:
        return False
    return any(fnmatchcase(value, p) or value == p or (part and p in value) for p in patterns)


def run_fits(said: Mapping[str, Any], asked: Filters, created_s: int | None) -> bool:
    """Whether a run is asked for by what is known of the whole run; ``created_s`` None: no date asked."""
    of_words = (
        not words or like(said.get(name), words)
        for name, words in (
            ("cluster", asked.clusters), ("fabric", asked.fabrics), ("kind", asked.kinds)
        )
    )  # fmt: skip
    hosts = said.get("hosts") or ()
    return (
        all(of_words)
        and (not asked.hosts or any(like(host, asked.hosts) for host in hosts))
        and (
            not asked.names
            or like(said["name"], asked.names, part=True)
            or like(said["run_id"], asked.names)
        )
        and (
            created_s is None
            or (
                (asked.since_s is None or created_s >= asked.since_s)
                and (asked.until_s is None or created_s <= asked.until_s)
            )
        )
    )
