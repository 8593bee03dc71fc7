"""What TensorBoard and Weights & Biases read back is what the run holds; without them one sentence."""

from __future__ import annotations

import json
import struct
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import load
from clusterlab.report.page.zoom import zoom_page
from clusterlab.runs.connected.scalars import Scalar, scalars_of
from clusterlab.runs.connected.tensorboard import write_tensorboard
from clusterlab.runs.connected.wandb_export import write_wandb
from tests.prometheus.some_runs import rail_rows, run_of, step_lines, sweep_rows, training_run

Curves = dict[str, dict[int, float]]


def curves_of(scalars: list[Scalar]) -> Curves:
    found: Curves = defaultdict(dict)
    for one in scalars:
        assert one.step not in found[one.tag], "one value a step"
        found[one.tag][one.step] = one.value
    return dict(found)


@pytest.fixture(params=["training", "sweep", "rails"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> RunDir:
    if request.param == "training":
        return training_run(tmp_path / "runs")
    rows = sweep_rows() if request.param == "sweep" else rail_rows()
    return run_of(tmp_path / "runs", rows, configuration={"pattern": "rail"})


def test_scalars_are_the_rows(tmp_path: Path) -> None:
    rows = sweep_rows()
    found = curves_of(scalars_of(load(run_of(tmp_path, rows))))
    for row in rows:
        place = "in_place" if row.in_place else "out_of_place"
        said = {row.collective, row.dtype, place}
        curves = {t: set(t.split("/")[1].split()) for t in found if t.startswith("busbw_GBps/")}
        (tag,) = [t for t, words in curves.items() if said <= words]
        assert found[tag][row.size_bytes] == row.busbw_GBps


def test_scalars_are_the_steps(tmp_path: Path) -> None:
    found = curves_of(scalars_of(load(training_run(tmp_path))))
    for step in step_lines():
        assert found["train/loss"][step.step] == step.loss
        assert found["train/step_ms"][step.step] == step.step_us / 1e3
        assert found["exposed_ms/dp"][step.step] == pytest.approx(0.2)
        parts = sum(c[step.step] for t, c in found.items() if t.startswith("step_parts_ms/"))
        assert parts == pytest.approx(0.75)


def test_tensorboard_reads_them_back(run: RunDir, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, count = write_tensorboard(run, tmp_path / "tb")
    read = EventAccumulator(str(folder))
    read.Reload()
    scalars = scalars_of(load(run))
    found = {
        tag: {one.step: one.value for one in read.Scalars(tag)} for tag in read.Tags()["scalars"]
    }
    expected = curves_of(scalars)
    assert set(found) == set(expected)
    for tag, curve in expected.items():
        assert found[tag] == pytest.approx(curve, rel=1e-6)
    assert count == len(scalars)
    one = scalars[0]
    assert read.Scalars(one.tag)[0].wall_time == pytest.approx(one.unix)
    with pytest.raises(UsageError, match="already"):
        write_tensorboard(run, tmp_path / "tb")


def leveldb_records(content: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, which wandb's file is after seven bytes of its own: blocks of
    32 KiB; in them parts with a checksum, a length and a type (1 whole, 2 first, 3 middle, 4 last).
    """
    at, held = 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        held += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield held
            held = b""


def history_of(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines and the configuration in wandb's own file."""
    from wandb.proto import wandb_internal_pb2

    (file,) = folder.glob("*.wandb")
    lines, configuration = [], {}
    for data in leveldb_records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            items = record.history.item
            lines.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
        if record.HasField("run"):
            configuration = {i.key: i.value_json for i in record.run.config.update}
    return lines, configuration


def test_wandb_keeps_them_offline(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")  # not by accident
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    folder, count = write_wandb(run, tmp_path, project="tests")
    # Its telemetry has threads, which outlive it; and ranks cannot be forked beside them.
    assert [t.name for t in threading.enumerate() if t.name.startswith("Otel")] == []
    assert folder.name.startswith("offline-run-")
    assert count == len(scalars_of(load(run)))
    lines, configuration = history_of(folder)
    expected = curves_of(scalars_of(load(run)))
    found: Curves = defaultdict(dict)
    for line in lines:
        step = line.get("train_step", line.get("size_bytes"))
        for tag in line:
            if not tag.startswith("_") and tag not in ("train_step", "size_bytes"):
                found[tag][int(step)] = line[tag]
    assert found == expected
    assert set(run.info.configuration) <= set(configuration)


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "plotly"])
def test_without_the_extra_one_sentence_names_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = training_run(tmp_path)
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError) as caught:
        if name == "tensorboard":
            write_tensorboard(run, tmp_path)
        elif name == "wandb":
            write_wandb(run, tmp_path, project="x")
        else:
            zoom_page(load(run))
    assert caught.value.fix == f"pip install 'clusterlab[{name}]'"
    assert "not installed" in caught.value.message


@pytest.mark.parametrize("write", [write_tensorboard, lambda r, o: write_wandb(r, o, project="x")])
def test_a_run_without_figures_is_refused_and_leaves_nothing(write: Any, tmp_path: Path) -> None:
    run = run_of(tmp_path / "runs")
    with pytest.raises(UsageError, match="neither steps nor points"):
        write(run, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]


def test_a_name_that_is_a_path_leads_nowhere_else(tmp_path: Path) -> None:
    run = training_run(tmp_path / "runs")
    file = run.path / "run.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "run_id": "../../evil"}))
    from clusterlab.records.run_dir import open_run

    folder, _ = write_tensorboard(open_run(run.path), tmp_path / "tb")
    assert folder.parent == tmp_path / "tb"
    assert {p.name for p in tmp_path.iterdir()} == {"runs", "tb"}
