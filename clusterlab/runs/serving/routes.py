"""Which answer a request gets."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl

from clusterlab.core.errors import UsageError
from clusterlab.core.jsontext import json_text
from clusterlab.records.reading import open_regular
from clusterlab.records.store import RECORDS
from clusterlab.runs.serving.gate import Gate
from clusterlab.runs.serving.places import NOTHING, run_in, run_names, segments
from clusterlab.runs.serving.rendered import Kept, Rendered
from clusterlab.runs.serving.shared import Shared
from clusterlab.runs.serving.wire import Answer, RefusedError, Request

ON_A_PAGE = 100
"""Runs of the list."""

LOOK_S = 1.0
"""Between two looks at a run that somebody watches."""

_BEAT_S = 15.0
_GONE: dict[str, object] = {"said": "The run is gone.", "over": True}
_LIST = "list"

_FILES = {
    "rows.csv": ("rows", "text/csv; charset=utf-8"),
    "data.json": ("data", "application/json"),
}


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events, of a run or (None) of the list."""

    run: Path | None


@dataclass(frozen=True, slots=True)
class Routes:
    """``root``: the runs folder, resolved."""

    root: Path
    gate: Gate
    rendered: Rendered
    looks: Shared = field(default_factory=Shared)

    async def answer(self, request: Request) -> Answer | Events:
        """Raises RefusedError."""
        self.gate.check(request)
        if self.gate.bears_token(request):
            return Answer(
                HTTPStatus.SEE_OTHER,
                "text/plain; charset=utf-8",
                headers={"Location": self.gate.mount, "Set-Cookie": self.gate.set_cookie()},
            )
        if not self.gate.admits(request):
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "Open the address that clusterlab serve printed when it started.",
            )
        path, _, query = request.target.partition("?")
        if not path.startswith(self.gate.mount):
            raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
        return await self._page(segments(path.removeprefix(self.gate.mount)), _fields(query))

    async def _page(self, parts: list[str], fields: dict[str, str]) -> Answer | Events:
        match parts:
            case [""]:
                return await self._list(fields)
            case ["events"]:
                return Events(None)
            case ["compare"]:
                return await self._compare(fields)
            case ["run", name, what]:
                run = await self.looks.call(run_in, self.root, name)
                return await self._of_run(run, what)
        raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)

    async def _of_run(self, run: Path, what: str) -> Answer | Events:
        if what == "":
            return _page(await self.rendered.of_run(run, "page", home="../../"))
        if what == "events":
            return Events(run)
        if what in _FILES:
            order, kind = _FILES[what]
            made = await self.rendered.of_run(run, order)
            return _download(made, kind, f"{run.name}.{what.rpartition('.')[2]}")
        if what == RECORDS:
            return await asyncio.to_thread(_raw, run / RECORDS, f"{run.name}.jsonl")
        raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)

    async def _list(self, fields: dict[str, str]) -> Answer:
        number = fields.get("page", "1")
        if set(fields) - {"page"} or not (number.isascii() and number.isdecimal()):
            raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
        return _page(await self.listed(int(number[:9])))

    async def listed(self, number: int = 1) -> Kept | str:
        """The list's page ``number``, of now."""
        names = await self.looks.call(run_names, self.root)
        pages = max(1, math.ceil(len(names) / ON_A_PAGE))
        number = min(max(1, number), pages)
        shown = names[(number - 1) * ON_A_PAGE : number * ON_A_PAGE]
        return await self.rendered.list_of(
            self.root, names=shown, page=number, pages=pages, total=len(names)
        )

    async def _compare(self, fields: dict[str, str]) -> Answer:
        if set(fields) != {"a", "b"}:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "Choose two runs of the list.")
        first = await self.looks.call(run_in, self.root, fields["a"])
        second = await self.looks.call(run_in, self.root, fields["b"])
        return _page(await self.rendered.of_run(first, "compare", other=str(second), home="./"))

    async def events(self, of: Events) -> AsyncIterator[bytes]:
        """What is new, as it comes; a comment now and then, so that a client that is gone is noticed."""
        yield b"retry: 3000\n\n"
        before = checked = ""
        quiet_s = 0.0
        while True:
            if of.run is None:
                told = await self._told_of_list()
            else:
                now = await self._stamp(of.run)
                gone = now != checked and not await self._is_there(of.run)
                told, checked = (_GONE, "") if gone else (await self._told(of.run), now)
            text = json_text(told)
            if text != before:
                before, quiet_s = text, 0.0
                yield f"data: {text}\n\n".encode()
                if told.get("over"):
                    return
            elif quiet_s >= _BEAT_S:
                quiet_s = 0.0
                yield b": \n\n"
            await asyncio.sleep(LOOK_S)
            quiet_s += LOOK_S

    async def _stamp(self, run: Path) -> str:
        try:
            return await self.rendered.stamp(run)
        except FileNotFoundError:
            return "gone"

    async def _is_there(self, run: Path) -> bool:
        """Asked when something changed only: it looks at every file."""
        try:
            await self.looks.call(run_in, self.root, run.name)
        except RefusedError:
            return False
        return True

    async def _told(self, run: Path) -> dict[str, object]:
        status = await self.rendered.status(run)
        kept, fresh = await self.rendered.newest(run, "page", home="../../")
        told: dict[str, object] = {"said": status.get("said") or status.get("error", "")}
        if isinstance(kept, Kept):
            told["stamp"] = kept.stamp
        if status.get("over") and fresh:
            told["over"] = True
        return told

    async def _told_of_list(self) -> dict[str, object]:
        listed = await self.listed()
        if isinstance(listed, str):
            return {"said": listed}
        return {"said": "It is loaded again when a run changes.", "stamp": listed.stamp}


def _fields(query: str) -> dict[str, str]:
    try:
        found = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=8
        )
    except ValueError:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "What follows the ? is not read here.") from None
    return dict(found)


def _page(made: Kept | str) -> Answer:
    if isinstance(made, str):
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, made)
    # No await since it was named: it cannot have been replaced and removed meanwhile.
    return Answer(body=made.file.open("rb"), policy=made.policy)


def _download(made: Kept | str, kind: str, name: str) -> Answer:
    if isinstance(made, str):
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, made)
    return Answer(kind=kind, body=made.file.open("rb"), headers=_attached(name))


def _raw(file: Path, name: str) -> Answer:
    """The rows as they stand."""
    try:
        opened = open_regular(file, follow=False)
    except (OSError, UsageError):
        raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING) from None
    return Answer(kind="application/x-ndjson", body=opened, headers=_attached(name))


def _attached(name: str) -> dict[str, str]:
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return {"Content-Disposition": f'attachment; filename="{safe}"'}
