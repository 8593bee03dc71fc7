"""Tables of measured collectives as CSV: what is read, and what is refused with file and line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.measured_csv import parse_measured

HEADER = "system,nccl_version,collective,dtype,n_ranks,size_bytes,time_us"


def test_a_row_keeps_its_line_and_what_is_absent_is_none() -> None:
    (row,) = parse_measured(
        f"{HEADER}\n\nh100_sxm,2.27.3,all_reduce,half,8,512,9.5\n", file="m.csv"
    )
    assert (row.line, row.n_ranks, row.size_bytes, row.time_us) == (3, 8, 512, 9.5)
    assert row.n_nodes is None and row.in_place is None and row.health is None and row.gpu == ""


def test_columns_may_stand_in_any_order_and_more_than_needed() -> None:
    text = (
        'time_us,notes,size_bytes,n_ranks,collective,system,health\n,"a, b",8,2,bcast,x,Healthy\n'
    )
    (row,) = parse_measured(text, file="m.csv")
    assert row.time_us is None and row.health == "healthy" and row.collective == "bcast"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", "m.csv:1", "no column 'system'"),
        ("system,collective,n_rank,size_bytes,time_us\n", "m.csv:1", "no column 'n_ranks'"),
        (HEADER.replace("dtype", "system"), "m.csv:1", "two columns 'system'"),
        (f"{HEADER}\na,b,all_reduce,half,8,512\n", "m.csv:2", "6 cells"),
        (f"{HEADER}\na,b,all_reduce,half,eight,512,9\n", "m.csv:2", "n_ranks is 'eight'"),
        (f"{HEADER}\na,b,all_reduce,half,0,512,9\n", "m.csv:2", "n_ranks is '0'"),
        (f"{HEADER}\na,b,all_reduce,half,,512,9\n", "m.csv:2", "n_ranks is ''"),
        (f"{HEADER}\na,b,all_reduce,half,8,-1,9\n", "m.csv:2", "size_bytes is '-1'"),
        (f"{HEADER}\na,b,all_reduce,half,8,512,nan\n", "m.csv:2", "time_us is 'nan'"),
        (f"{HEADER}\na,b,all_reduce,half,8,512,-3\n", "m.csv:2", "time_us is '-3'"),
        (f"{HEADER}\n,b,all_reduce,half,8,512,9\n", "m.csv:2", "neither system nor gpu"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_line(text: str, place: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_measured(text, file="m.csv")
    assert caught.value.where == place and said in caught.value.message


@pytest.mark.parametrize("text", ["# nThread 1 nGpus 8\n", '{"version":1}\n', "a;b;c\n1;2;3\n"])
def test_a_file_that_is_no_table_is_sent_to_import(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_measured(text, file="m.csv")
    assert "clusterlab import" in (caught.value.fix or "")


@given(st.text(max_size=300), st.booleans())
def test_no_text_ends_in_a_traceback(text: str, with_header: bool) -> None:
    try:
        parse_measured(f"{HEADER}\n{text}" if with_header else text, file="m.csv")
    except UsageError as error:
        assert (error.where or "").startswith("m.csv:")
