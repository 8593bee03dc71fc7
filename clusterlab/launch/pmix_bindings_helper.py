"""The process in which the PMIx Python bindings run: one JSON request a line in, one reply a line out.

Started as a script by ``pmix_bindings``, possibly under another Python than clusterlab's (Debian builds
the module for its own), so it uses the standard library only and no syntax newer than Python 3.9.
The bindings hold the GIL while they wait: faulthandler's own thread ends this process after the
deadline all the same.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

Message = dict[str, Any]

GLOBAL_SCOPE, BOOL, BYTE_OBJECT = 3, 1, 27  # pmix_common.h
GRACE_S = 5.0  # the parent gives up first and says why


def open_reply_pipe() -> TextIO:
    """Keep fd 1 for replies; what the bindings print ("CLIENT STARTING THREAD") goes nowhere."""
    replies = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return replies


def import_pmix() -> Any:
    """The bindings' module ``pmix``; not the file of that name beside this one, nor PyPI's."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != here]
    import pmix

    if not hasattr(pmix, "PMIxClient"):
        raise ImportError(f"the module pmix in {pmix.__file__} is not the PMIx bindings")
    return pmix


class Session:
    """One client of the bindings and the requests it understands."""

    def __init__(self, pmix: Any) -> None:
        self.client = pmix.PMIxClient()
        version = self.client.get_version()
        self.version = version.decode() if isinstance(version, bytes) else str(version)
        self.namespace: str | None = None

    def init(self, request: Message) -> Message:
        """Connect. Without a server the bindings return -25 and an empty dictionary."""
        code, me = self.client.init([])
        self.namespace = me.get("nspace")
        return {"code": code, "namespace": self.namespace, "rank": me.get("rank")}

    def put(self, request: Message) -> Message:
        """A byte object must be given as this dictionary: anything else crashes the bindings."""
        data = base64.b64decode(request["value"])
        value = {"value": {"bytes": data, "size": len(data)}, "val_type": BYTE_OBJECT}
        return {"code": self.client.put(GLOBAL_SCOPE, request["key"], value)}

    def commit(self, request: Message) -> Message:
        """Hand staged values to the server."""
        return {"code": self.client.commit()}

    def fence(self, request: Message) -> Message:
        """All ranks, data collected."""
        everyone = [{"nspace": self.namespace, "rank": request["wildcard"]}]
        collect = [{"key": request["collect"], "value": True, "val_type": BOOL}]
        return {"code": self.client.fence(everyone, collect)}

    def get(self, request: Message) -> Message:
        """One value: bytes travel as base64, everything else as it is."""
        who = {"nspace": self.namespace, "rank": request["rank"]}
        code, found = self.client.get(who, request["key"], [])
        if not found:
            return {"code": code or -46}
        value = found["value"]
        if found["val_type"] == BYTE_OBJECT:
            data = bytes(value["bytes"])[: value["size"]]
            return {"code": code, "bytes": base64.b64encode(data).decode("ascii")}
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        return {"code": code, "value": value if isinstance(value, (str, int, float)) else None}

    def finalize(self, request: Message) -> Message:
        """Leave."""
        return {"code": self.client.finalize([])}


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    replies = open_reply_pipe()
    nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - faulthandler needs it for as long as we live

    def reply(answer: Message) -> None:
        replies.write(json.dumps(answer) + "\n")
        replies.flush()

    try:
        session = Session(import_pmix())
    except ImportError as error:
        reply({"unavailable": str(error)})
        return
    reply({"version": session.version})
    for line in sys.stdin:
        request = json.loads(line)
        limit_s = request["timeout_s"] + GRACE_S
        faulthandler.dump_traceback_later(limit_s, exit=True, file=nowhere)
        answer = getattr(session, request["call"])(request)
        faulthandler.cancel_dump_traceback_later()
        if answer["code"]:
            answer["text"] = str(session.client.error_string(answer["code"]))
        reply(answer)


if __name__ == "__main__":
    main()
