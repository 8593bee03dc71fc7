"""Joined records: read leniently, refused clearly, written and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterlab.binding.records import (
    BUNDLE_FILE,
    JoinedRecord,
    join_records,
    load_record,
    read_record,
    record_to_json,
    save_bundle,
)
from clusterlab.core.errors import UsageError
from clusterlab.core.order import number_list
from tests.support import shared_dir


def minimal(**rank: Any) -> dict[str, Any]:
    return {
        "nodes": {
            "n0": {"gpus": [{"index": 0, "pci": "00000000:1B:00.0"}], "numa": {0: "0-3", 1: 4}}
        },
        "ranks": [{"host": "n0", "rank": 0, "local_rank": 0, "env": {}} | rank],
    }


def read(**rank: Any) -> JoinedRecord:
    return read_record(minimal(**rank), file="r.yaml")


def test_addresses_are_read_in_one_spelling() -> None:
    record = read(visible=["1b:00.0"])
    assert record.nodes["n0"].gpus[0].pci == "0000:1b:00.0" == (record.ranks[0].visible or ())[0]
    assert record.contradictions == ()


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-2,5", {0, 1, 2, 5}), (7, {7}), ("0-6:2", {0, 2, 4, 6}), ([1, 2], {1, 2}), ("", set())],
)
def test_cpu_lists(text: object, cpus: set[int]) -> None:
    assert read(cpus=text).ranks[0].cpus == cpus


def test_cpu_lists_are_written_in_runs() -> None:
    assert number_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"


def test_numbers_and_nothing_in_the_environment_are_text_and_unset() -> None:
    assert read(env={"RANK": 3, "X": None, "Y": True}).ranks[0].env == {"RANK": "3", "Y": "true"}


def test_unknown_keys_are_passed_over() -> None:
    data = minimal(zodiac="lion") | {"weather": {"rain": True}}
    assert read_record(data, file="r") == read_record(minimal(), file="r")


def test_slurms_version_may_look_like_a_number() -> None:
    assert read_record(minimal() | {"slurm": {"version": 23.1}}, file="r").slurm.version == "23.10"


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("rank", "three", "ranks[0].rank"),
        ("cpus", "3-1", "ranks[0].cpus"),
        ("cpus", "0-99999999", "ranks[0].cpus"),
        ("visible", "0000:1b:00.0", "ranks[0].visible"),
        ("env", ["A=1"], "ranks[0].env"),
        ("selected_device", 1.5, "ranks[0].selected_device"),
        ("cuda_initialized_before_set", "maybe", "ranks[0].cuda_initialized_before_set"),
        ("host", None, "ranks[0]"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(field: str, value: object, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(**{field: value})
    assert caught.value.where == f"r.yaml: {place}"


def test_what_cannot_be_true_is_said() -> None:
    record = read(visible=["0000:ff:00.0"], cpus="90-99")
    assert len(record.contradictions) == 2
    stranger = minimal()
    stranger["ranks"].append({"host": "n7", "rank": 1, "env": {}})
    assert "no node n7" in read_record(stranger, file="r").contradictions[0]


def test_every_given_case_is_written_and_read_back_unchanged() -> None:
    for path in sorted((shared_dir() / "cases" / "binding").glob("*.yaml")):
        record = load_record(path)
        again = json.loads(json.dumps(record_to_json(record)))
        assert read_record(again, file="again") == record, path.stem


def test_a_bundle_is_a_folder_that_reads_back(tmp_path: Path) -> None:
    record = read(cpus="0-3", visible=["1b:00.0"], openable=[])
    save_bundle(record, tmp_path / "bundle")
    assert load_record(tmp_path / "bundle") == record
    assert load_record(tmp_path / "bundle" / BUNDLE_FILE) == record


def test_files_of_single_ranks_are_joined(tmp_path: Path) -> None:
    for rank in (1, 0):
        part = minimal(rank=rank) | {"missing_ranks": [0, 1, 2]}
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps(part))
    record = load_record(tmp_path)
    assert [r.rank for r in record.ranks] == [0, 1]
    assert record.missing_ranks == (2,)


def test_joining_keeps_the_node_that_knows_its_gpus() -> None:
    bare = read_record(
        {"nodes": {"n0": {}}, "ranks": [{"host": "n0", "rank": 1, "env": {}}]}, file="bare"
    )
    assert join_records([bare, read()]).nodes["n0"].gpus


@pytest.mark.parametrize("name", ["empty", "words.json", "deep.json", "nan.json", "latin.yaml"])
def test_folders_and_files_that_hold_no_record_are_refused(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    if name == "empty":
        target.mkdir()
    else:
        target.write_bytes(
            {
                "words.json": b'{"ranks": oops}',
                "deep.json": b"[" * 100_000,
                "nan.json": b'{"ranks": [NaN]}',
                "latin.yaml": b"ranks: [\xe9]",
            }[name]
        )
    with pytest.raises(UsageError, match=name.replace(".", r"\.")):
        load_record(target)


def _rank_file(rank: int) -> str:
    return json.dumps({"ranks": [{"host": "n0", "rank": rank}]})


def test_a_bundle_with_truncated_and_foreign_files_is_judged_by_the_others(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(_rank_file(0))
    (tmp_path / "rank1.json").write_text(_rank_file(1)[:20])
    (tmp_path / "rank2.json").write_text('{"name": "something else"}')
    record = load_record(tmp_path)
    assert [r.rank for r in record.ranks] == [0]
    assert [("rank1.json" in c, "rank2.json" in c) for c in record.contradictions] == [
        (True, False),
        (False, True),
    ]


def test_a_bundle_without_any_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text("{")
    with pytest.raises(UsageError, match=r"rank0\.json"):
        load_record(tmp_path)


def test_an_endless_device_is_refused() -> None:
    with pytest.raises(UsageError, match="too long"):
        load_record(Path("/dev/zero"))


def test_a_negative_missing_rank_is_refused() -> None:
    with pytest.raises(UsageError, match="missing_ranks"):
        read_record({"nodes": {}, "missing_ranks": [3, -1]}, file="x")


def test_more_cpus_and_devices_than_can_be_compared_are_refused() -> None:
    ranks = [{"host": "n0", "rank": i, "cpus": "0-65535"} for i in range(600)]
    with pytest.raises(UsageError, match="too many CPUs"):
        read_record({"ranks": ranks}, file="x")
    devices = [f"GPU-{i}" for i in range(6000)]
    nodes = {"n0": {"gpus": [{"pci": d} for d in devices]}}
    with pytest.raises(UsageError, match="too many devices"):
        read_record(
            {"nodes": nodes, "ranks": [{"host": "n0", "rank": 0, "visible": devices}]}, file="x"
        )
