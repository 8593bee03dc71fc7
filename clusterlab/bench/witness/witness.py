"""Ask NCCL what it does, by its own log, around one untimed call of each point.

Four places: ``open_witness`` before the communicator is made, ``quiet`` once it is made and before anything
is timed, ``saw`` around the first call of each point, ``close`` at the end. A line costs the host some µs,
so between the witnessed calls NCCL logs warnings only. Its connections are made by the first call that
needs them (since 2.22), therefore the witnessed call must be the first of its point; NCCL rereads its
settings at the next call, therefore at least one more untimed call must follow.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from clusterlab.bench.witness.facts import Heard, LibraryFacts, all_gdr, chosen, said_of
from clusterlab.bench.witness.library import Library, driver_version, loaded_library
from clusterlab.bench.witness.listening import MemoryFile, Source, Tail, new_folder
from clusterlab.bench.witness.settings import (
    GRAPH,
    LOG,
    TOPOLOGY,
    TOPOLOGY_DUMP,
    Files,
    Settings,
    choose_settings,
    own_environment,
)
from clusterlab.core.measurement import UNSAID, LibrarySaid
from clusterlab.core.rows import Point

_BY_ASKING = "NCCL's log around one untimed call of each point"
_BY_READING = "NCCL's log as your own settings have it"


class Witness:
    """One rank's. Nothing in it fails a sweep: what goes wrong becomes a note, and nothing more is asked."""

    def __init__(self) -> None:
        self._settings = Settings()
        self._library: Library | None = None
        self._driver: str | None = None
        self._folder: Path | None = None
        self._start: Source | None = None
        self._heard: MemoryFile | None = None
        self._aside: MemoryFile | None = None
        self._before: dict[str, str | None] = {}
        self._set: dict[str, str] = {}
        self._said = Heard()
        self._notes: list[str] = []
        self._on = False
        self._calm = False

    def begin(self, find: Callable[[], Library | None], run_path: Path | None) -> None:
        """Set NCCL's variables. ``find``: this process's NCCL; ``run_path`` None: keep nothing on disk."""
        if run_path is not None:
            with self._noting("NCCL's log is not kept"):
                self._folder = new_folder(run_path)
        with self._noting("NCCL's log cannot be set up"):
            self._library = library = find()
            self._driver = driver_version()
            self._heard, self._aside = MemoryFile("nccl-heard"), MemoryFile("nccl-aside")
            self._settings = choose_settings(
                own_environment(),
                Files(self._folder, self._heard.path, self._aside.path),
                resettable=library is not None and library.reset is not None,
                host=socket.gethostname(),
                pid=os.getpid(),
            )
            self._notes += self._settings.notes
            log = self._settings.log
            self._start = Tail(log) if log is not None else self._heard
            self._set_variables(self._settings.variables)
            self._on = True

    def follow(self) -> None:
        """Ask for a topology dump as rank 0 does, and keep none.

        Where the variable is set, NCCL gathers the topology once more among a host's ranks (src/init.cc):
        were it set for some of them only, they would wait for each other for ever.
        """
        if not own_environment().get(TOPOLOGY_DUMP):
            self._set_variables({TOPOLOGY_DUMP: os.devnull})

    def quiet(self) -> None:
        """The communicator is made: from here on NCCL logs warnings only. Once is enough, twice no harm."""
        if self._calm or not self._on:
            return
        with self._noting("NCCL's log cannot be read"):
            self._calm = True
            self._listen_no_more()
            self._end_dumps()
            self._hear_start()
            if self._settings.asking is not None:
                self._start = None  # from here on the file holds what is added to it here

    def saw(self, point: Point, call: Callable[[], object]) -> LibrarySaid:
        """Make ``call``, the first of ``point`` on this rank, and wait for its end in it; what NCCL did.

        All ranks call it alike. Errors of ``call`` itself are raised.
        """
        self.quiet()
        if not self._on:
            call()
            return UNSAID
        with self._noting("NCCL's log cannot be opened"):
            self._hear_start()
            self._listen()
        try:
            call()
        finally:
            with self._noting("NCCL's log cannot be closed"):
                self._listen_no_more()
        said = UNSAID
        if self._on:
            with self._noting("NCCL's log cannot be read"):
                said = self._learn(point)
        version = self._library.version_text if self._library else None
        return replace(said, version=version, driver_version=self._driver)

    def warnings(self) -> tuple[str, ...]:
        """NCCL's warnings so far, which the run's log now holds too: for whoever ends a rank that hangs."""
        if self._on:
            with self._noting("NCCL's log cannot be read"):
                self._hear_start()
        return tuple(self._said.warnings)

    def close(self) -> LibraryFacts:
        """Give the user's variables back; what holds for the whole run."""
        self.quiet()
        with self._noting("NCCL's log cannot be read"):
            self._hear_start()
        how = self._how()
        with self._noting("NCCL's log cannot be closed"):
            self._set_variables_back()
            self._reset()
        used = self._said.transports()
        facts = LibraryFacts(
            version=self._library.version_text if self._library else None,
            driver_version=self._driver,
            how=how,
            transports=tuple(sorted({t.name for t in used})),
            gdr=all_gdr(used),
            variables={k: v for k, v in self._said.variables.items() if k not in self._set},
            refused=dict(self._said.refused),
            files=self._files(),
            warnings=tuple(self._said.warnings),
            notes=tuple(self._notes),
        )
        for file in (self._heard, self._aside):
            if file is not None:
                file.close()
        self._start = self._heard = self._aside = None
        self._on = False
        return facts

    def _learn(self, point: Point) -> LibrarySaid:
        if self._settings.asking is not None and self._heard is not None:
            text = self._heard.take()
            self._keep(text)
        else:
            text = self._start_text()
        choices = self._said.take(text, point.ranks)
        choice = chosen(choices, point) if self._settings.says_choices else None
        return said_of(choice, self._said.used_by(point, choice.algorithm if choice else None))

    def _hear_start(self) -> None:
        """What NCCL logged outside witnessed calls: its start, then warnings."""
        self._said.take(self._start_text())
        if self._aside is not None:
            text = self._aside.take()
            self._keep(text)
            self._said.take(text)

    def _start_text(self) -> str:
        return self._start.take() if self._start is not None else ""

    def _listen(self) -> None:
        if self._settings.asking is not None:
            self._set_variables(self._settings.asking)
            self._reset()

    def _listen_no_more(self) -> None:
        if self._settings.asking is not None:
            self._set_variables(self._settings.quiet)
            self._reset()

    def _reset(self) -> None:
        # Never where the log is the user's: NCCL would open it anew and lose what stands in it.
        asking = self._settings.asking is not None
        if asking and self._library is not None and self._library.reset is not None:
            self._library.reset()

    def _end_dumps(self) -> None:
        """Later, smaller communicators would write over the dumps of the whole."""
        for name, path in self._settings.variables.items():
            if name.endswith("_DUMP_FILE") and Path(path).exists():
                self._set_variables({name: os.devnull})

    def _keep(self, text: str) -> None:
        if text and self._folder is not None:
            with (self._folder / LOG).open("a", encoding="utf-8") as file:
                file.write(text)

    def _set_variables(self, variables: Mapping[str, str]) -> None:
        # Values are replaced, names stay until the end: the C library frees nothing that another
        # thread may be reading in getenv.
        for name, value in variables.items():
            self._before.setdefault(name, os.environ.get(name))
            os.environ[name] = self._set[name] = value

    def _set_variables_back(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _files(self) -> tuple[str, ...]:
        if self._folder is None:
            return ()
        here = [name for name in (LOG, TOPOLOGY, GRAPH) if (self._folder / name).exists()]
        return tuple(f"{self._folder.name}/{name}" for name in here)

    def _how(self) -> str | None:
        if not self._on or not self._settings.says_choices:
            return None
        return _BY_ASKING if self._settings.asking is not None else _BY_READING

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, RuntimeError, AttributeError) as error:
            self._on = False
            self._notes.append(f"{what}: {error}")


def open_witness(
    run_path: Path | None, rank: int, backend: str, *, every_rank: bool = False
) -> Witness:
    """Call it before the process group is made. Under gloo, and on ranks above 0, the witness only calls.

    Rank 0 keeps NCCL's log, topology and graphs in a folder of the run; ``every_rank``: the others listen as
    well, for their own transports, and keep nothing on disk.
    """
    witness = Witness()
    if backend == "nccl":
        if rank == 0 or every_rank:
            witness.begin(_library_of_torch, run_path if rank == 0 else None)
        if rank != 0 and run_path is not None:
            witness.follow()
    return witness


def _library_of_torch() -> Library | None:
    import torch  # noqa: F401 - loads the libnccl that it uses

    return loaded_library()
