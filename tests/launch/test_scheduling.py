import os
import threading
from collections.abc import Callable

from clusterlab.launch.scheduling import finish_before_yielding


def in_child(body: Callable[[], bool]) -> bool:
    """What ``body`` says in a process of its own: policies are not changed in the test's."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if body() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_threads_started_later_inherit_the_policy() -> None:
    def body() -> bool:
        seen = []
        finish_before_yielding()
        thread = threading.Thread(target=lambda: seen.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
        return seen == [os.SCHED_BATCH]

    assert in_child(body)


def test_a_policy_that_somebody_chose_stays() -> None:
    def body() -> bool:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return not finish_before_yielding() and os.sched_getscheduler(0) == os.SCHED_IDLE

    assert in_child(body)
