"""ledger/: every collective and every phase of every training step, one compressed file per rank."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.stepping import CollectiveSummary, Entry, Span, StepLedger
from clusterlab.records.files import check_schema, write_json
from clusterlab.records.members import MemberWriter, members_of
from clusterlab.records.reading import is_there, parse_json, read_json
from clusterlab.records.strict import check_value, checked

LEDGER = "ledger"
COLLECTIVES = "collectives.json"
LEDGER_SCHEMA = 1


def ledger_path(folder: Path, rank: int) -> Path:
    """Where ``rank`` keeps its ledger in the run ``folder``."""
    return folder / LEDGER / f"rank-{rank:05d}.jsonl.gz"


class LedgerWriter(MemberWriter):
    """Appends one rank's steps."""

    def __init__(self, folder: Path, rank: int) -> None:
        """Open the file of ``rank`` in the run ``folder``."""
        super().__init__(ledger_path(folder, rank))

    def append(self, ledger: StepLedger) -> None:
        """Keep one step, times to the nanosecond. Raises StorageError."""
        data = _rounded({"schema_version": LEDGER_SCHEMA, **asdict(ledger)})
        self.append_member(json.dumps(data, separators=(",", ":")).encode() + b"\n")


def _rounded(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _rounded(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_rounded(value) for value in data]
    return round(data, 3) if isinstance(data, float) else data


def ledger_ranks(folder: Path) -> list[int]:
    """The ranks whose ledgers the run in ``folder`` holds."""
    found = (folder / LEDGER).glob("rank-*.jsonl.gz")
    names = (path.name.removeprefix("rank-").removesuffix(".jsonl.gz") for path in found)
    return sorted(int(name) for name in names if name.isdecimal())


def read_ledger(folder: Path, rank: int) -> Iterator[StepLedger]:
    """All complete steps of ``rank``, in order of writing. Raises UsageError for what is no such file."""
    path = ledger_path(folder, rank)
    try:
        for number, (content, _) in enumerate(members_of(path), start=1):
            yield _parse(content, where=f"{path}: step {number}")
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path)) from None


def _parse(content: bytes, *, where: str) -> StepLedger:
    data: Any = parse_json(content, where=where)
    if not isinstance(data, dict):
        raise UsageError("not a mapping", where=where)
    check_schema(data.get("schema_version"), LEDGER_SCHEMA, where=where)
    fields = checked(data, StepLedger, where=where)
    spans = tuple(Span(**checked(one, Span, where=where)) for one in fields["spans"])
    entries = tuple(_entry(one, where=where) for one in fields["entries"])
    return StepLedger(**{**fields, "spans": spans, "entries": entries})


def _entry(data: Any, *, where: str) -> Entry:
    fields = checked(_complete(data), Entry, where=where)
    ranks = tuple(check_value("ranks", rank, (int,), where=where) for rank in fields["ranks"])
    return Entry(**{**fields, "ranks": ranks})


def write_collectives(
    folder: Path, found: Sequence[CollectiveSummary], of: Sequence[StepLedger] = ()
) -> None:
    """Replace collectives.json of the run ``folder``: what rank 0's collectives took in the steps ``of``."""
    kinds = [asdict(one) for one in found]
    covers = {"attempt": of[-1].attempt, "steps": [of[0].step, of[-1].step]} if of else {}
    data = {"schema_version": LEDGER_SCHEMA, **covers, "collectives": kinds}
    write_json(folder / COLLECTIVES, data)


def covered_by(folder: Path) -> str:
    """Which steps and attempt collectives.json is of, in words; nothing where it does not say."""
    path = folder / COLLECTIVES
    data = read_json(path) if is_there(path) else None
    if not isinstance(data, dict) or "steps" not in data:
        return ""
    where = str(path)
    steps = check_value("steps", data["steps"], (list,), where=where)
    numbers = [check_value("steps", one, (int,), where=where) for one in steps]
    if len(numbers) != 2:
        raise UsageError(
            f"{steps!r:.60}", where=f"{where}: steps", expected="the first and the last"
        )
    attempt = check_value("attempt", data.get("attempt"), (int,), where=where)
    return f"steps {numbers[0]} to {numbers[1]} of attempt {attempt}"


def read_collectives(folder: Path) -> tuple[CollectiveSummary, ...]:
    """What ``write_collectives`` wrote; nothing where it did not. Raises UsageError."""
    path = folder / COLLECTIVES
    if not is_there(path):
        return ()
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("collectives"), list):
        raise UsageError("not a mapping with collectives", where=str(path))
    check_schema(data.get("schema_version"), LEDGER_SCHEMA, where=str(path))
    kinds = data["collectives"]
    where = str(path)
    return tuple(
        CollectiveSummary(**checked(_complete_kind(kind), CollectiveSummary, where=where))
        for kind in kinds
    )


def _complete_kind(data: Any) -> Any:
    """As ``_complete``; a release before had a row for each size of a call."""
    data = _complete(data)
    more = {"least_bytes": None, "most_bytes": None}
    return {**more, **data} if isinstance(data, dict) else data


def _complete(data: Any) -> Any:
    """``data`` of a release that did not tell ends from when they were seen, too."""
    return {"at_most": True, **data} if isinstance(data, dict) else data
