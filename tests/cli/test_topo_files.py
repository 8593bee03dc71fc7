"""What ``-o`` may replace, and which files ``--fabric`` takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from clusterlab.cli.topo import app
from clusterlab.core.errors import UsageError
from clusterlab.topology.exporting.registry import export_as
from clusterlab.topology.opening import files_behind, open_fabric

SMALL = """\
name: small
links:
  ndr: {class: ib, GBps: 48, GBps_source: here}
hosts:
  count: 2
  devices: [{name: gpu0, kind: gpu}, {name: nic0, kind: nic}]
  links: [{from: gpu0, to: nic0, type: ndr}]
network:
  devices: [{name: leaf0, kind: leaf}]
  links: [{from: "n*/nic0", to: leaf0, type: ndr}]
"""


def run(*words: str) -> object:
    return CliRunner().invoke(app, [*words], standalone_mode=False)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def refusal(*words: str) -> str:
    result = CliRunner().invoke(app, [*words], standalone_mode=False)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_no_command_writes_over_what_it_read(small: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(small)
    broken = tmp_path / "broken.yaml"
    run("break", str(small), "leaf0", "-o", str(broken))
    for target in (small, link):
        assert "made from" in refusal("break", str(small), "leaf0", "-o", str(target))
        assert "made from" in refusal("break", str(broken), "n1", "-o", str(target))
    assert "made from" in refusal("break", str(broken), "n1", "-o", str(broken))
    assert "made from" in refusal("export", str(small), "--to", "dot", "-o", str(small))
    matrix = tmp_path / "m.txt"
    matrix.write_text("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n")
    assert "made from" in refusal("import", str(matrix), "-o", str(matrix))
    assert small.read_text() == SMALL
    assert files_behind(str(broken)) == [broken, small]
    assert open_fabric(str(broken)).hosts == ("n0", "n1")


def test_a_link_stays_a_link(small: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text("old")
    link.symlink_to(real)
    run("break", str(small), "leaf0", "-o", str(link))
    assert link.is_symlink()
    assert "base" in real.read_text()


def test_a_folder_and_a_missing_folder_are_refused(small: Path, tmp_path: Path) -> None:
    assert "a folder" in refusal("break", str(small), "leaf0", "-o", str(tmp_path))
    assert "no folder" in refusal("break", str(small), "leaf0", "-o", str(tmp_path / "x" / "y"))


@pytest.mark.parametrize("target", ["slurm-yaml", "infragraph"])
def test_other_tools_yaml_opens_like_any_fabric(small: Path, tmp_path: Path, target: str) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(export_as(target, open_fabric(str(small))))
    assert len(open_fabric(str(path)).of_kind("leaf")) == 1


def test_a_design_without_anything_is_refused_as_a_design(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("name: nothing\n")
    with pytest.raises(UsageError, match="no devices"):
        open_fabric(str(path))
