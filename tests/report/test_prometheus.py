"""The text against prometheus_client's strict parsers: whatever runs call themselves, a label holds it."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from clusterlab.report.files.prom_names import METRICS
from clusterlab.report.files.prometheus import Sample, label_value, openmetrics_text, prom_text

NAME = "clusterlab_busbw_gbs"
texts = st.text(st.characters(exclude_categories=()), max_size=200)


@given(texts, st.floats(allow_nan=False, allow_infinity=False))
@example('a"} 1\nevil 2 # {b="\\', 1.0)
@example("\\n", 0.0)
@example("\ud800", 0.0)
@example("-=+@\t\x1b[2J\u202e", -0.0)
def test_any_text_is_one_label_of_one_series(text: str, value: float) -> None:
    sample = Sample(NAME, {"cluster": text, "nodes": "2"}, value)
    kept = label_value(text)
    expected = {"nodes": "2", **({"cluster": kept} if kept else {})}
    for parsed in (
        parse(prom_text([sample]).decode()),
        parse_openmetrics(openmetrics_text([sample]).decode()),
    ):
        (family,) = parsed
        (one,) = family.samples
        assert (one.name, one.labels, one.value) == (NAME, expected, value)
    assert len(kept) <= 100
    assert label_value(kept) == kept, "two labels may not become one later than it is seen"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_no_series(value: float) -> None:
    assert prom_text([Sample(NAME, {}, value)]) == b""


def test_names_units_and_help() -> None:
    for metric in METRICS.values():
        assert re.fullmatch(r"clusterlab(_[a-z0-9]+)+", metric.name)
        assert metric.help.endswith(".")
        assert not re.search(r"_(us|ms|microseconds|milliseconds|GBps|total)\b", metric.name)


def test_every_metric_has_its_help_and_type_once_and_openmetrics_ends() -> None:
    samples = [Sample(name, {"n": n}, 1.0) for name in METRICS for n in "ab"]
    text = prom_text(samples).decode()
    assert text.count("# HELP ") == text.count("# TYPE ") == len(METRICS)
    assert text.count(" gauge\n") == len(METRICS)
    families = list(parse_openmetrics(openmetrics_text(samples).decode()))
    assert {f.name: f.type for f in families if f.type != "gauge"} == {"clusterlab_run": "info"}
    units = {f.name: f.unit for f in families}
    assert units["clusterlab_train_step_seconds"] == "seconds"
    assert openmetrics_text(samples).endswith(b"# EOF\n")
