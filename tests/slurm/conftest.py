"""Real labs for the tests in this folder, all of which carry the marker ``slurm``.

``lab`` is one lab for the whole session: 4 nodes, 8 pretend GPUs, 16 CPUs. A test leaves it idle.
``make_lab`` makes labs of a test's own. Where a lab cannot be, tests skip and say why; with CI=true
they fail.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterlab.core.errors import ClusterlabError
from clusterlab.lab import labs, lifecycle
from clusterlab.lab.doctor import require
from clusterlab.lab.labs import Lab
from clusterlab.lab.machine import observe, sized
from clusterlab.lab.processes import wait_until

MakeLab = Callable[..., Lab]

SOON_DOWN: dict[str, Any] = {
    "slurmd_timeout_s": 4, "kill_wait_s": 2, "cred_expire_s": 5, "extra_conf": ("MessageTimeout=4",),
}  # fmt: skip
"""For a lab in which a node loses power: it is down, and its job requeued, in 15 s less than by a lab's own
times. Slurm's MessageTimeout of 10 s is what the first unanswered ping costs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


def refuse(reason: str) -> None:
    """Skip, or fail where skipping would hide that nothing was tested."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def can_hold_labs() -> None:
    """Labs in namespaces can be made here."""
    try:
        require(observe(), flat=False)
    except ClusterlabError as error:
        refuse(str(error))


@pytest.fixture(scope="session")
def can_hold_flat_labs() -> None:
    """Flat labs can be made here."""
    try:
        require(observe(), flat=True)
    except ClusterlabError as error:
        refuse(str(error))


@pytest.fixture(scope="session")
def lab_base() -> Iterator[Path]:
    """A folder for labs with a path short enough for their sockets; gone, with its labs, in the end."""
    base = Path(tempfile.mkdtemp(prefix="cl-"))
    base.chmod(0o755)
    yield base
    for name in labs.names(base):
        lifecycle.down(name=name, base=base)
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def lab(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A lab of 4 nodes whose hosts all see pytest's tmp_path."""
    share = [tmp_path_factory.getbasetemp()]
    yield lifecycle.up(sized(observe()), name="session", base=lab_base, share=share)
    lifecycle.down(name="session", base=lab_base)


@pytest.fixture
def make_lab(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeLab]:
    """Make a lab: ``make_lab(nodes=2, …)`` as for ``machine.sized``, ``name`` to choose one."""
    made: list[str] = []

    def make(*, name: str = "", **wanted: Any) -> Lab:
        made.append(name or f"own{len(made)}")
        share = [tmp_path_factory.getbasetemp()]
        spec = sized(observe(), **wanted)
        return lifecycle.up(spec, name=made[-1], base=lab_base, share=share)

    yield make
    for name in made:
        lifecycle.down(name=name, base=lab_base)


def wait_for_state(lab: Lab, node: str, state: str, *, timeout_s: float = 60) -> None:
    """Wait until Slurm says ``state`` of ``node``, with any flag (``down*``)."""

    def reached() -> bool:
        found = next(n for n in labs.status(lab).nodes if n.name == node)
        return found.state.rstrip("*~#$@+") == state

    assert wait_until(reached, timeout_s=timeout_s, step_s=0.2), labs.status(lab)
