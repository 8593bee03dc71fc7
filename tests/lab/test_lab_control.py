from __future__ import annotations

import threading
from pathlib import Path

import pytest

from clusterlab.core.errors import DeadlineError
from clusterlab.lab import control


def test_a_request_gets_its_answer_and_only_our_uid_may_ask(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with control.listen(path) as server:
        assert path.stat().st_mode & 0o777 == 0o600

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                control.reply(connection, {"got": control.receive(connection), "x": "é" * 100_000})

        thread = threading.Thread(target=serve)
        thread.start()
        answer = control.ask(path, "boot", node="n1", timeout_s=10)
        thread.join(10)
    assert answer == {"got": {"do": "boot", "node": "n1"}, "x": "é" * 100_000}


def test_nobody_there_and_hanging_up_are_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with pytest.raises(DeadlineError, match="does not answer `status`"):
        control.ask(path, "status")
    with control.listen(path) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(DeadlineError, match="clusterlab lab down, then up"):
            control.ask(path, "status", timeout_s=10)
        thread.join(10)


def test_silence_ends_at_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with control.listen(path), pytest.raises(DeadlineError, match="timed out"):
        control.ask(path, "status", timeout_s=0.05)
