"""How switches choose, where nobody says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.predict import predict
from clusterlab.cost.routing import routing_of
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.opening import open_fabric
from tests.cost.examples import request


@pytest.mark.parametrize(
    ("backend", "own", "asked", "expected"),
    [
        ("gloo", None, None, "pinned"),
        ("nccl", None, None, "adaptive"),
        ("gloo", "hash", None, "hash"),
        ("nccl", "pinned", None, "pinned"),
        ("gloo", "hash", "adaptive", "adaptive"),
    ],
)
def test_what_is_asked_then_the_fabrics_own_then_the_backends(
    backend: str, own: str | None, asked: str | None, expected: str
) -> None:
    fabric = replace(open_fabric("lab-rails-4x2"), routing=own)
    assert routing_of(fabric, backend, asked) == expected


def test_a_word_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match=r"--routing: unknown routing 'hsah'.*'hash'"):
        routing_of(open_fabric("lab-rails-4x2"), "gloo", "hsah")


def test_a_slow_uplink_slows_the_flows_that_are_pinned_to_it_only() -> None:
    """Of gloo's two directions round a ring one takes the slow uplink, the other does not."""
    whole = open_fabric("lab-2to1-4x2")
    slow = break_fabric(whole, ["leaf0/spine0:half"])
    ratio = {
        name: predict(request(slow, 8, name, 8 << 20, routing="pinned")).time_us
        / predict(request(whole, 8, name, 8 << 20, routing="pinned")).time_us
        for name in ("all_reduce", "all_gather", "send_recv")
    }
    assert ratio == pytest.approx({"all_reduce": 1, "all_gather": 2, "send_recv": 2}, rel=0.02)
    spread = predict(request(slow, 8, "all_gather", 8 << 20, routing="adaptive"))
    assert spread.time_us == pytest.approx(
        predict(request(whole, 8, "all_gather", 8 << 20, routing="adaptive")).time_us
    )
