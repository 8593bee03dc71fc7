"""The examples of topologies/README.md: each loads, passes `topo check` and predicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from clusterlab.cli.topo import app
from clusterlab.core.shipped import shipped
from clusterlab.cost.predict import predict
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.place import place_on
from clusterlab.topology.summary import summary

README = (shipped("topologies") / "README.md").read_text(encoding="utf-8")
SECTION = README.split("## A cluster of your own\n")[1].split("\n## ")[0]
BLOCKS = SECTION.split("```")[1::2]
EXAMPLES = [block.removeprefix("yaml\n") for block in BLOCKS if block.startswith("yaml\n")]


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split("\n")[0])
def test_an_example_is_checked_and_predicted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    done = CliRunner().invoke(app, ["check", str(path)], standalone_mode=False)
    assert (done.exception, done.output.strip()) == (None, "no findings")
    fabric = open_fabric(str(path))
    found = summary(fabric)
    assert (found["hosts"], found["devices"]["gpu"]) == (16, 128)
    assert fabric.hosts == tuple(f"node{i:03d}" for i in range(1, 17))
    assert found["oversubscription"]["nominal"] == 2
    request = PredictRequest(
        fabric=fabric, groups=one_group(place_on(fabric, 128)), collective="all_reduce",
        size_bytes=1 << 30, backend="nccl",
    )  # fmt: skip
    one = predict(request)
    assert one.time_us >= one.bound.time_us > 0
    assert not any("ruled out" in note or "model" in note for note in one.notes)


def test_there_are_two_and_the_first_is_short() -> None:
    assert len(EXAMPLES) == 2
    assert len(EXAMPLES[0].splitlines()) <= 13
