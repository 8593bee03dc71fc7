"""Rows of nccl-tests' table, whatever stands before, between and behind them."""

from __future__ import annotations

import csv
import re

import pytest

from clusterlab.formats.nccl_tests import Timing, parse_nccl_tests, recognise
from tests.support import shared_dir

HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
ROW = "  1048576  262144  float  sum  -1  339.61  3.09  3.09  0  335.85  3.12  3.12  0\n"


def test_a_row_is_read_in_its_two_halves() -> None:
    (row,) = parse_nccl_tests(HEADER + ROW).rows
    assert (row.size_bytes, row.count, row.dtype, row.redop, row.root) == (
        1048576,
        262144,
        "float",
        "sum",
        -1,
    )
    assert row.out_of_place == Timing(339.61, 3.09, 3.09, "0")
    assert row.in_place == Timing(335.85, 3.12, 3.12, "0")
    assert row.line == 2


@pytest.mark.parametrize(
    ("row", "root", "time_us", "in_place"),
    [
        ("8 2 float sum 0 4.21 0.00 0.00 0 0.19 0.04 0.04 0", 0, 4.21, True),
        ("8 2 float sum 0 4.21 0.00 0.00 0 0.19 0.04 0.04 0 20", 0, 4.21, True),
        ("1073741824 268435456 float sum 11643 92.23 178.69 1e-06 11069 97.0 187.9 1e-06",
         None, 11643, True),
        ("8589934592 268435456 float 33508 256.36 224.31 N/A 33234 258.47 226.16 N/A",
         None, 33508, True),
        ("512 8 float 87.33 0.01 0.01 N/A 88.47 0.0", None, 87.33, False),
        ("8192 64 float none -1 106.5 0.08 0.07 0node0:1:1 [0] NCCL INFO x", -1, 106.5, False),
        ("33554432 8388608 float sum -1 25.74 1303.8 0.00 0 0.37 89754 0.00 0 20",
         -1, 25.74, True),
        ("8 2 float none -1 11.65 0.00 0.00 0 N/A N/A N/A N/A", -1, 11.65, False),
    ],
)  # fmt: skip
def test_rows_of_all_vintages_without_a_header(
    row: str, root: int | None, time_us: float, in_place: bool
) -> None:
    found = parse_nccl_tests("[1,0]<stdout>:  " + row)
    (one,) = found.rows
    assert (one.root, one.out_of_place.time_us, one.in_place is not None) == (
        root,
        time_us,
        in_place,
    )
    assert (found.headers, found.banner) == (0, True)


def test_source_prefixes_between_the_words_are_passed_over() -> None:
    text = (
        "TimeTest(), common.cu:610,  64  4  float  none  -1BenchTime(), common.cu:561,  477.8  "
        "0.00  0.00  0BenchTime(), common.cu:561,  466.0  0.00  0.00  0TimeTest(), common.cu:613, "
    )
    (row,) = parse_nccl_tests(text).rows
    assert row.in_place == Timing(466.0, 0.0, 0.0, "0")


def test_other_numbers_are_no_rows() -> None:
    text = (
        "GPU 0 1 float\n2025 12 float sum\n10 20 half none -1node0:1:1 [0] NCCL INFO\nstep 1 2 a b"
    )
    found = parse_nccl_tests(text)
    assert (found.rows, found.headers, found.banner) == ((), 0, False)
    assert not recognise(text)
    assert recognise("# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor)")


def test_every_sample_has_as_many_rows_and_headers_as_stated() -> None:
    samples = shared_dir() / "samples"
    checked = 0
    for stated in csv.DictReader((samples / "expect.csv").read_text().splitlines()):
        rows = re.match(r"(\d+) table rows", stated["notes"])
        if stated["kind"] != "nccl_logs" or rows is None:
            continue
        found = parse_nccl_tests((samples / stated["path"]).read_text(errors="replace"))
        assert len(found.rows) == int(rows.group(1)), stated["path"]
        headers = re.search(r"(\d+) headers", stated["notes"])
        assert headers is None or found.headers == int(headers.group(1)), stated["path"]
        checked += 1
    assert checked > 40
