"""A thread in every rank that answers the others: what is this process doing?

Over sockets of its own, not the job's store: the store is gone or stopped with the rank that serves it,
which may be the very rank that is asked for. Nothing is sent while a sweep runs well.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.stores import LOOPBACK, source_address

if TYPE_CHECKING:
    from torch.distributed import Store

Question = Mapping[str, Any]
Answer = Mapping[str, Any]

_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """Where a rank's witness listens. It answers only who knows ``token``, which the job's store tells."""

    rank: int
    host: str
    pid: int
    port: int
    token: str
    names: tuple[str, ...]


class Witness:
    """Listens until ``close`` and answers each question by ``answer``, in a thread of its own."""

    def __init__(self, identity: RankIdentity, answer: Callable[[Question], Answer]) -> None:
        self._answer = answer
        alone = identity.local_world_size == identity.world_size
        dual = not alone and socket.has_dualstack_ipv6()
        self._listening = socket.create_server(
            (LOOPBACK if alone else "", 0),
            family=socket.AF_INET6 if dual else socket.AF_INET,
            dualstack_ipv6=dual,
            backlog=128,
        )
        self.address = Address(
            identity.rank,
            identity.host,
            os.getpid(),
            self._listening.getsockname()[1],
            secrets.token_hex(8),
            (LOOPBACK,) if alone else _names(identity.host),
        )
        threading.Thread(target=self._serve, name="witness", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # ends accept()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve_one, args=(connection,), name="answer", daemon=True
            ).start()

    def _serve_one(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection:
            connection.settimeout(5.0)
            question = _read_line(connection)
            if secrets.compare_digest(str(question.get("token")), self.address.token):
                connection.sendall(json.dumps(self._answer(question)).encode() + b"\n")


def _names(host: str) -> tuple[str, ...]:
    """How others may reach this host, the launcher's name for it first."""
    return tuple(dict.fromkeys((host, socket.gethostname())))


class NoAnswerError(Exception):
    """Nobody answered. ``refused``: the host is there, the process is not. ``met``: something accepted."""

    def __init__(self, *, refused: bool, met: bool) -> None:
        super().__init__()
        self.refused = refused
        self.met = met


def ask(
    address: Address, question: Question, *, here: str, connect_s: float, answer_s: float
) -> Answer:
    """The answer of the rank at ``address``; ``here`` is the asker's host. Raises NoAnswerError."""
    names = (LOOPBACK, *address.names) if address.host == here else address.names
    refused = met = False
    for name in dict.fromkeys(names):
        try:
            with socket.create_connection((name, address.port), connect_s) as connection:
                met = True
                connection.settimeout(answer_s)
                text = json.dumps({**question, "token": address.token})
                connection.sendall(text.encode() + b"\n")
                answer = _read_line(connection)
        except ConnectionRefusedError:
            refused = True
        except (OSError, ValueError):
            if met:  # it will not answer under another name either
                break
        else:
            return answer
    raise NoAnswerError(refused=refused, met=met)


def _read_line(connection: socket.socket) -> Answer:
    """One JSON object. Raises ValueError for anything else, an early end too."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = connection.recv(65536)
        if not chunk or len(data) > _LONGEST:
            raise ValueError("not a line")
        data += chunk
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


class Directory:
    """Where all witnesses of a sweep are: told to the job's store by each, read by each once."""

    def __init__(self, store: Store, identity: RankIdentity) -> None:
        clone = getattr(store, "clone", None)
        # A connection of its own: it may be read while the main thread sits in a store call.
        self._store: Store = clone() if clone is not None else store
        self._world_size = identity.world_size
        # All ranks make the same calls on one store, so counting one's own tells which sweep this is.
        self._sweep = self._store.add(f"clusterlab/bench/sweeps/{identity.rank}", 1)
        self.known: tuple[Address, ...] = ()

    def tell(self, address: Address) -> None:
        """This rank's witness is at ``address``, and by the number it has towards the store's host."""
        served_at = getattr(self._store, "host", LOOPBACK)
        if served_at != LOOPBACK and address.names != (LOOPBACK,):
            found = source_address([served_at])
            address = replace(address, names=(*address.names, *([found] if found else ())))
        self._store.set(self._key(address.rank), json.dumps(asdict(address)))

    def learn(self) -> None:
        """Read where the others are. Every rank must have told, or this waits for it."""
        if not self.known:
            keys = [self._key(rank) for rank in range(self._world_size)]
            self.known = tuple(map(_address, self._store.multi_get(keys)))

    def learn_some(self) -> None:
        """Read those that have told so far."""
        if not self.known:
            keys = [self._key(rank) for rank in range(self._world_size)]
            self.known = tuple(
                _address(self._store.get(key)) for key in keys if self._store.check([key])
            )

    def _key(self, rank: int) -> str:
        return f"clusterlab/bench/sweep-{self._sweep}/witness/{rank}"


def _address(text: bytes) -> Address:
    data = json.loads(text)
    return Address(**{**data, "names": tuple(data["names"])})
