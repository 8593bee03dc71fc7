"""Raw iteration times: appended point by point, readable after a crash at any byte."""

from __future__ import annotations

import gzip
import json
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.core.rows import POINT_OF_1, SCHEMA_VERSION
from clusterlab.records.samples import SamplesWriter, read_samples, samples_path
from tests.records.fake_runs import points

POINTS = tuple(points(["all_reduce"]))[:5]
TIMES = tuple(tuple(10.0 * n + i / 8 for i in range(20)) for n in range(len(POINTS)))


def written(folder: Path, rank: int = 3, attempt: int = 1) -> tuple[Path, list[int]]:
    """A file with all points, and its size after each."""
    path = samples_path(folder, rank)
    ends = []
    with SamplesWriter(folder, rank, attempt) as writer:
        for point, times_us in zip(POINTS, TIMES, strict=True):
            writer.append(point, times_us)
            ends.append(path.stat().st_size)
    return path, ends


def test_times_come_back_with_point_rank_and_attempt(tmp_path: Path) -> None:
    path, _ = written(tmp_path / "samples", attempt=2)
    read = read_samples(path)
    assert not read.truncated
    assert [p.point for p in read.points] == list(POINTS)
    assert [p.times_us for p in read.points] == list(TIMES)
    assert {(p.rank, p.attempt) for p in read.points} == {(3, 2)}


def test_any_gzip_tool_reads_the_file(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    lines = gzip.decompress(path.read_bytes()).splitlines()
    assert [json.loads(line)["point"]["size_bytes"] for line in lines] == [
        p.size_bytes for p in POINTS
    ]


def test_samples_of_the_first_schema_are_read(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    old = []
    for line in gzip.decompress(path.read_bytes()).splitlines():
        data = {**json.loads(line), "schema_version": 1}
        data["point"] = {k: v for k, v in data["point"].items() if k not in POINT_OF_1}
        old.append(gzip.compress(json.dumps(data).encode()))
    path.write_bytes(b"".join(old))
    assert [p.point for p in read_samples(path).points] == list(POINTS)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_file_truncated_at_any_byte_keeps_whole_points_and_goes_on(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path, ends = written(folder)
    cut = data.draw(st.integers(0, ends[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    whole = sum(end <= cut for end in ends)
    read = read_samples(path)
    assert [p.times_us for p in read.points] == list(TIMES[:whole])
    assert read.truncated == (cut not in (0, *ends))
    with SamplesWriter(folder, 3, attempt=2) as writer:
        writer.append(POINTS[0], [1.0])
    after = read_samples(path)
    assert [p.attempt for p in after.points] == [1] * whole + [2]
    assert not after.truncated


def test_a_full_disk_is_one_error_and_leaves_whole_points(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with SamplesWriter(tmp_path, 0, 1) as writer:
        writer.append(POINTS[0], TIMES[0])
        resource.setrlimit(resource.RLIMIT_FSIZE, (writer.path.stat().st_size + 40, hard))
        try:
            with pytest.raises(StorageError, match="rank-00000"):
                writer.append(POINTS[1], TIMES[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        writer.append(POINTS[2], TIMES[2])
    read = read_samples(writer.path)
    assert [p.point for p in read.points] == [POINTS[0], POINTS[2]]
    assert not read.truncated


def test_a_file_larger_than_one_read_is_whole(tmp_path: Path) -> None:
    many = [i * 1.001 for i in range(100_000)]
    with SamplesWriter(tmp_path, 0, 1) as writer:
        writer.append(POINTS[0], many)
        writer.append(POINTS[1], many)
    assert writer.path.stat().st_size > 1 << 17
    assert [len(p.times_us) for p in read_samples(writer.path).points] == [100_000, 100_000]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, "newer clusterlab"),
        ({"schema_version": 1, "time_us": []}, "unknown key 'time_us'.*did you mean 'times_us'"),
        ({"schema_version": 1, "rank": 0}, "lacks point"),
        ([1], "not a mapping"),
    ],
)
def test_a_member_of_another_schema_is_refused(tmp_path: Path, line: object, message: str) -> None:
    path = tmp_path / "rank-00000.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line).encode()))
    with pytest.raises(UsageError, match=message):
        read_samples(path)


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_samples(tmp_path / "none.gz")
