from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import DeadlineError, UsageError
from clusterlab.launch.meeting_point import MeetingPoint, find_store, meeting_ports
from clusterlab.launch.stores import StoreAddress, parse_address

ADDRESS = StoreAddress(("10.0.0.1", "n0"), 4711)


@given(st.integers(0, 10**9), st.integers(0, 10**4))
def test_every_rank_derives_the_same_distinct_ports_below_the_ephemeral_range(
    job: int, step: int
) -> None:
    ports = meeting_ports(f"{job}.{step}.0")
    assert ports == meeting_ports(f"{job}.{step}.0")
    assert len(set(ports)) == len(ports)
    assert all(20000 <= port < 32000 for port in ports)


def test_the_store_is_found_by_the_steps_name() -> None:
    with contextlib.closing(MeetingPoint("7.0.0", ADDRESS)) as meeting:
        assert meeting.port == meeting_ports("7.0.0")[0]
        assert find_store("7.0.0", ["127.0.0.2", "127.0.0.1"], timeout_s=5) == ADDRESS


def test_two_jobs_on_one_port_do_not_mix() -> None:
    step = "8.0.0"
    with (
        occupied(meeting_ports(step)[:1], b"SSH-2.0-other\r\n"),
        contextlib.closing(MeetingPoint(step, ADDRESS)) as meeting,
    ):
        assert meeting.port == meeting_ports(step)[1]
        assert find_store(step, ["127.0.0.1"], timeout_s=5) == ADDRESS


def test_a_meeting_point_of_another_step_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = meeting_ports("9.0.0")
    monkeypatch.setattr("clusterlab.launch.meeting_point.meeting_ports", lambda step: ports)
    with (
        contextlib.closing(MeetingPoint("9.0.0", ADDRESS)),
        pytest.raises(DeadlineError, match=r"nobody opened the meeting point of step 9\.1\.0"),
    ):
        find_store("9.1.0", ["127.0.0.1"], timeout_s=0.2)


def test_strangers_that_answer_rubbish_are_passed_over() -> None:
    step = "10.0.0"
    with (
        occupied(meeting_ports(step)[:2], b'{"hosts": [], "port": 0}\n'),
        contextlib.closing(MeetingPoint(step, ADDRESS)),
    ):
        assert find_store(step, ["127.0.0.1"], timeout_s=5) == ADDRESS


def test_no_free_port_is_said_with_a_way_out() -> None:
    step = "11.0.0"
    with occupied(meeting_ports(step), b""), pytest.raises(UsageError, match="--mpi=pmix"):
        MeetingPoint(step, ADDRESS)


def test_nobody_there_names_hosts_and_ports() -> None:
    with pytest.raises(DeadlineError) as caught:
        find_store("12.0.0", ["127.0.0.1"], timeout_s=0.1)
    assert "127.0.0.1" in str(caught.value)
    assert str(meeting_ports("12.0.0")[0]) in str(caught.value)


def test_an_address_survives_its_text() -> None:
    assert parse_address(ADDRESS.to_text(), where="x") == ADDRESS


NO_ADDRESSES = (
    *("", "[]", "null", "{", '{"hosts": "n0", "port": 1}', '{"hosts": ["n0"], "port": 70000}'),
    *('{"hosts": [], "port": 5}', '{"hosts": [3], "port": 5}', '{"port": 5}'),
)


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"x: .*no store address"):
        parse_address(text, where="x")


@contextlib.contextmanager
def occupied(ports: list[int], says: bytes) -> Iterator[None]:
    """Strangers that listen on ``ports`` and greet everyone with ``says``."""
    with contextlib.ExitStack() as stack:
        threads = []
        for port in ports:
            listening = stack.enter_context(socket.create_server(("", port)))
            threads.append(threading.Thread(target=greet, args=(listening, says), daemon=True))
            threads[-1].start()
            stack.callback(wake, listening)
        yield
    for thread in threads:
        thread.join(5)


def wake(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)


def greet(listening: socket.socket, says: bytes) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            connection.sendall(says)
