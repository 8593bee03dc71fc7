"""bringup.json comes back as it was written, and a value of a wrong kind is refused by its field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusterlab.core.bringup import Bringup, InitSplit, RankBringup, Repeated
from clusterlab.core.errors import UsageError
from clusterlab.records.bringups import bringup_from_json
from clusterlab.report.console.bringup import bringup_json

MANY = Repeated((0.5, 0.4), (0.1, 0.1), (0.2, 0.2), {"fds": (3, 4, 5), "rss_bytes": (1, 2, 3)})
RANK = RankBringup(0, "n0", 7, {"start": 1.5, "first_call": 2.0}, 10.0, 13.5,
                   InitSplit(None, 1.0, {"kernels": 0.5}), MANY)  # fmt: skip
BRINGUP = Bringup("gloo", "file", "local", "torch 2", (RANK,))


def test_what_is_written_is_what_is_read() -> None:
    document = json.loads(json.dumps(bringup_json(BRINGUP, ())))
    assert bringup_from_json(document, where="f") == BRINGUP


@pytest.mark.parametrize("value", [None, "x", [], {}, [5], True, 10**400, -1, float("nan")])
@pytest.mark.parametrize(
    "where",
    [
        *(("host",), ("phases",), ("phases", "start"), ("started_unix_s",), ("init", "parts")),
        *(("init", "parts", "kernels"), ("init", "total_s"), ("repeated", "create_s")),
        *(("repeated", "create_s", 0), ("repeated", "usage"), ("repeated", "usage", "fds")),
    ],
    ids=lambda where: ".".join(map(str, where)),
)
def test_a_value_of_a_wrong_kind_is_refused(where: tuple[str | int, ...], value: Any) -> None:
    document = json.loads(json.dumps(bringup_json(BRINGUP, ())))
    inner = document["ranks"][0]
    for key in where[:-1]:
        inner = inner[key]
    if type(value) is type(inner[where[-1]]) and not (isinstance(value, float)):
        pytest.skip("of its kind")
    inner[where[-1]] = value
    with pytest.raises(UsageError, match=r"f: ranks\[0\]"):
        bringup_from_json(document, where="f")
