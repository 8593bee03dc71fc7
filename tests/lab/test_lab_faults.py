"""Links that are broken and healed by name, on the files of a lab whose processes are played here."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.lab import control, faults
from clusterlab.lab.description import Holder
from clusterlab.lab.fabric_files import write_fabric, write_network
from clusterlab.lab.fabric_of_lab import LabFabric, open_lab_fabric
from clusterlab.lab.labs import Lab
from clusterlab.lab.layout import Layout
from clusterlab.lab.machine import resolve, sized
from clusterlab.lab.switches import read_data_network
from clusterlab.topology.failures.faults import find_faults
from clusterlab.topology.opening import open_fabric
from tests.lab.machines import SMALL


def make(run_dir: Path, design: str) -> Lab:
    fabric = open_lab_fabric(design, "pinned")
    layout = Layout(run_dir)
    layout.run_dir.mkdir()
    spec = sized(SMALL, **fabric.shape, fabric=design, routing="pinned")
    for node in fabric.fabric.hosts:
        layout.node(node).mkdir()
    write_fabric(layout, fabric)
    write_network(layout, fabric.network())
    holder = Holder(1, "", 1, "", "", 0)
    return Lab(layout, spec, resolve(spec, SMALL, layout), holder)


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def lab(tmp_path: Path, asked: list[str]) -> Iterator[Lab]:
    """The rails lab with a login host that agrees to everything; ``asked`` is what it was asked."""
    found = make(tmp_path / "lab", "lab-rails-4x2")
    server = control.listen(found.layout.control)

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked.append(control.receive(connection)["do"])
                control.reply(connection, {"ok": True})

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield found
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(timeout=5)


def test_the_newest_word_on_a_link_counts_and_heal_takes_it_back(
    lab: Lab, asked: list[str]
) -> None:
    assert faults.broken_now(lab) == ()
    assert faults.degrade(lab, ["leaf0/spine0"], "50%") == ("leaf0/spine0:50%",)
    assert faults.fail(lab, ["spine1", "n2/nic0"]) == ("leaf0/spine0:50%", "spine1", "n2/nic0")
    assert faults.degrade(lab, ["leaf0/spine0"], "0.25")[-1] == "leaf0/spine0:0.25"
    assert faults.heal(lab, ["spine1", "leaf0/spine0"]) == ("n2/nic0",)
    assert faults.heal(lab, []) == ()
    assert asked == ["network"] * 5


def test_what_is_broken_is_what_a_prediction_reads(lab: Lab) -> None:
    faults.fail(lab, ["leaf2/spine1"])
    faults.degrade(lab, ["n1/nic1", "leaf0/spine0"], "half")
    found = find_faults(open_fabric(str(lab.layout.fabric)))
    named = {c.name: (c.down, c.degraded) for c in found.hurt if c.link_class == "ethernet"}
    assert named == {"leaf2/spine1": (1, 0), "leaf0/spine0": (0, 1), "n1/nic1/leaf1": (0, 1)}
    network = read_data_network(lab.layout)
    assert network is not None
    down = [wire.cable for wire in network.wires if not wire.up]
    halved = sorted(wire.cable for wire in network.wires if wire.low.bit_s == 100_000_000)
    assert (down, halved) == (["leaf2/spine1"], ["leaf0/spine0", "n1/nic1/leaf1"])


def test_tasks_that_start_while_a_nic_is_down_take_the_other_one(lab: Lab) -> None:
    file = lab.layout.task_nics("n1") / "0"
    assert file.read_text() == "export GLOO_SOCKET_IFNAME=nic0\nexport SOURCENIC=10.78.0.11\n"
    faults.fail(lab, ["n1/nic0"])
    assert file.read_text() == "export GLOO_SOCKET_IFNAME=nic1\nexport SOURCENIC=10.78.1.11\n"
    faults.fail(lab, ["n1/nic1"])
    assert "nic0" in file.read_text(), "no other network is taken instead"
    faults.heal(lab, [])
    assert "nic0" in file.read_text()


@pytest.mark.parametrize("left", ["0", "100%", "1", "1.5", "down", "", "x", "50", "-1", "16/16"])
def test_a_share_that_is_none_is_refused(lab: Lab, left: str) -> None:
    with pytest.raises(UsageError, match=r"--to|leaves all"):
        faults.degrade(lab, ["leaf0/spine0"], left)
    assert faults.broken_now(lab) == ()


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("leaf0/spine7", "leaf0/spine7"),
        ("leaf0/leaf1", "not connected"),
        ("leav0", "did you mean"),
        ("n0/gpu0", "lies inside a node"),
        ("n0/cpu0/cpu1", "lies inside a node"),
        ("n1", "lab kill-node n1"),
        ("leaf0/spine0:half", "lab degrade"),
        ("leaf0/spine0#3", "no cable #3"),
        ("rail7", "no rail 7"),
    ],
)
def test_a_link_that_cannot_fail_is_refused_and_changes_nothing(
    lab: Lab, asked: list[str], link: str, said: str
) -> None:
    before = lab.layout.network.read_text()
    with pytest.raises(UsageError, match=said):
        faults.fail(lab, ["leaf1/spine0", link])
    assert (lab.layout.network.read_text(), asked) == (before, [])


def test_heal_of_what_was_not_broken_says_what_is(lab: Lab) -> None:
    faults.fail(lab, ["leaf0/spine1"])
    with pytest.raises(UsageError, match="expected one of leaf0/spine1; did you mean"):
        faults.heal(lab, ["leaf0/spine0"])


def test_a_design_of_ones_own_is_kept_with_the_lab(tmp_path: Path) -> None:
    """The file may change or lie where nodes do not see it; the failures it has stay."""
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text("base: lab-rails-4x2\nbroken: ['leaf0/spine0:half']\n")
    lab = make(tmp_path / "lab", str(theirs))
    theirs.unlink()
    found = find_faults(open_fabric(str(lab.layout.fabric)))
    assert [c.name for c in found.hurt] == ["leaf0/spine0"]
    text = json.loads(lab.layout.network.read_text())
    assert [w["cable"] for w in text["wires"] if w["low"]["bit_s"] == 1e8] == ["leaf0/spine0"]


def test_a_lab_without_a_fabric_has_no_links_to_break(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "plain")
    layout.run_dir.mkdir()
    spec = sized(SMALL)
    lab = Lab(layout, spec, resolve(spec, SMALL, layout), Holder(1, "", 1, "", "", 0))
    with pytest.raises(UsageError, match="lab plain has no fabric; clusterlab lab down, then up"):
        faults.fail(lab, ["leaf0"])


def test_a_fabric_is_read_back_as_it_was_written(lab: Lab) -> None:
    assert isinstance(lab.layout, Layout)
    whole = LabFabric(open_fabric("lab-rails-4x2"), "lab-rails-4x2", "pinned")
    assert lab.layout.fabric.read_text() == whole.text()
