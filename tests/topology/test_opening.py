"""Fabrics by reference: what a file says beside its base."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.failures.breaking import broken_yaml
from clusterlab.topology.opening import open_fabric


@pytest.mark.parametrize("broken", [(), ("leaf0/spine0:half", "n1/nic0")])
@pytest.mark.parametrize("routing", ["", "hash", "pinned"])
def test_the_routing_that_a_lab_wrote_is_read_back(
    tmp_path: Path, broken: tuple[str, ...], routing: str
) -> None:
    base = open_fabric("lab-rails-4x2")
    file = tmp_path / "fabric.yaml"
    file.write_text(broken_yaml("lab-rails-4x2", base.digest, broken, routing=routing))
    assert open_fabric(str(file)).routing == (routing or None)
    # What breaks more of it keeps it.
    again = tmp_path / "again.yaml"
    again.write_text(broken_yaml(str(file), "", ("leaf1/spine0",)))
    assert open_fabric(str(again)).routing == (routing or None)


def test_a_routing_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text("base: lab-rails-4x2\nrouting: pined\nbroken: []\n")
    with pytest.raises(UsageError, match=r"fabric.yaml:2: routing: unknown .*'pinned'"):
        open_fabric(str(file))
