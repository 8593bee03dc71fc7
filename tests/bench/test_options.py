"""Options and combinations that make no sense are refused, named."""

from __future__ import annotations

import pytest

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.support import unsupported_reason
from clusterlab.core.errors import UsageError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("iterations", 0),
        ("warmup", -1),
        ("deadline_s", -1.0),
        ("deadline_s", float("nan")),
        ("median_within", 1.0),
        ("budget_s", 0.0),
        ("aggregated", 0),
        ("graph_launches", 0),
    ],
)
def test_bad_options_name_the_field_or_the_word(field, value):
    with pytest.raises(UsageError, match=f"{field}|egar"):
        BenchOptions(**{field: value})


@pytest.mark.parametrize(
    ("backend", "n", "name", "dtype", "op", "reason"),
    [
        ("gloo", 4, "all_reduce", "float32", "avg", None),
        ("gloo", 4, "all_reduce", "int32", "avg", "floating point"),
        ("gloo", 4, "all_gather", "int32", "avg", None),  # op means nothing here
        ("gloo", 4, "broadcast", "float8_e5m2", None, "fp8"),
        ("gloo", 4, "send_recv", "float8_e5m2", None, None),
        ("gloo", 1, "send_recv", "float32", None, "same rank"),
        ("nccl", 1, "send_recv", "float32", None, None),
        ("nccl", 1, "all_reduce", "float8_e5m2", "avg", "single rank"),
        ("nccl", 2, "all_reduce", "float8_e5m2", "avg", None),
        ("nccl", 8, "all_reduce", "int8", "avg", None),
        ("nccl", 200, "all_reduce", "int8", "avg", "does not fit"),
        ("nccl", 200, "all_reduce", "int32", "avg", None),
    ],
)
def test_what_a_backend_lacks_has_a_reason(backend, n, name, dtype, op, reason):
    got = unsupported_reason(backend, n, name, dtype, op)
    assert (got is None) == (reason is None)
    assert reason is None or reason in got
