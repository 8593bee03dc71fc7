"""``cal.yaml``: what is written is read back, and no damage gets past the reader or ends in a traceback."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.calibrated.file import from_yaml, load_system_calibration, to_yaml
from clusterlab.cost.calibration import save_calibration
from clusterlab.cost.host_overhead import Launch
from tests.cost.calibrated.examples import calibration
from tests.cost.examples import calibration as of_host

TEXT = to_yaml(calibration())
LINES = TEXT.splitlines(keepends=True)


def rounded(text: str) -> str:
    return to_yaml(replace(from_yaml(text, file="cal.yaml"), path=""))


def test_what_is_written_is_read_back() -> None:
    again = from_yaml(TEXT, file="cal.yaml")
    mine = calibration()
    assert again.path == "cal.yaml" and rounded(TEXT) == TEXT
    for field in ("system", "machine", "chip", "versions", "seen", "sources", "date_utc"):
        assert getattr(again, field) == getattr(mine, field)
    for ours, theirs in zip(mine.constants, again.constants, strict=True):
        assert theirs.name == ours.name and theirs.value == pytest.approx(ours.value, rel=1e-4)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), 2, "cal.yaml:4: format: 2; expected 1; calibrate again"),
        (("format",), True, "format: True"),
        (("kind",), "something else", "kind: 'something else'; expected NCCL on one system"),
        (("system",), "", "system: '' is not text"),
        (("machine", "gpus_per_host"), 0, "machine.gpus_per_host: 0; expected a whole number"),
        (("machine", "library"), "mccl", "unknown library 'mccl'; expected one of nccl, rccl"),
        (("machine", "gpus"), 8, "unknown key 'gpus'"),
        (("chip",), "hoper", "did you mean 'hopper'"),
        (("network",), "infiniband", "unknown network 'infiniband'"),
        (("versions",), "2.27.5", "versions: '2.27.5' is not a list"),
        (("versions", 0), 2.27, "versions[0]: 2.27 is not text"),
        (("through_host",), "no", "through_host: 'no'; expected true or false"),
        (("seen",), [], "seen: []; expected at least 1 entries"),
        (("seen", 0, "collective"), "all_redux", "unknown collective 'all_redux'"),
        (("seen", 0, "ranks"), [8, 2], "seen[0].ranks: [8, 2]; expected 1 or more rising numbers"),
        (("seen", 0, "nodes"), [], "seen[0].nodes: []; expected 1 or more"),
        (("seen", 0, "sizes_bytes"), [4096], "seen[0].sizes_bytes: [4096]; expected [least, largest]"),
        (("seen", 0, "rows"), "many", "seen[0].rows: 'many'; expected a whole number"),
        (("constants", 0, "name"), "base", "unknown name 'base'"),
        (("constants", 0, "value"), "fast", "constants[0].value: 'fast' is not a number"),
        (("constants", 0, "value"), float("nan"), "constants[0].value: nan is not finite"),
        (("constants", 0, "value"), -1.0, "constants[0].value: -1.0; expected a number from 0"),
        (("constants", 0, "value"), "unknown", "constants[0].value: 'unknown'; expected a number"),
        (("constants", 0, "unit"), "ms", "constants[0].unit: 'ms'; expected µs; calibrate again"),
        (("factors", 0, "factors", 0), 100.0, "factors[0].factors[0]: 100.0; expected a number from 0.1"),
        (("factors", 0, "factors"), [1.0], "factors[0].factors: [1.0]; expected 8 numbers"),
        (("factors", 0, "sizes_bytes", 1), 1, "expected 1 or more rising numbers"),
        (("residuals",), [], "residuals: []; expected at least 1 entries"),
        (("residuals", 0, "size_band"), "small", "unknown size_band 'small'"),
        (("residuals", 0, "left_out"), "nothing", "unknown left_out 'nothing'"),
        (("residuals", 0, "low"), 1.5, "residuals[0].low: 1.5; expected a number from 0.0001 to 1"),
        (("residuals", 0, "high"), 0.5, "residuals[0].high: 0.5; expected a number from 1"),
        (("residuals", 0, "coverage"), 80, "residuals[0].coverage: 80; expected a number from 0 to 1"),
        (("sources", 0, "sha256"), "abc", "sources[0].sha256: 'abc'; expected 64 hexadecimal"),
        (("sources",), 7, "sources: 7 is not a list"),
        (("backend",), "gloo", "a self-calibration, of one host's cores"),
        (("issue",), "direct", "unknown issue 'direct'; expected one of eager, graph, library"),
        (("launches",), [{"issue": "eager"}], "launches[0].time_us: nothing is not a number"),
        (("launches",), [{"issue": "eagre"}], "did you mean 'eager'"),
        (("launches",), [{"of": "eager"}], "unknown key 'of'"),
        (("extra",), 1, "unknown key 'extra'"),
    ],
)  # fmt: skip
def test_a_damaged_field_is_refused_by_name(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    data = yaml.safe_load(TEXT)
    place = data
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    head = "".join(LINES[:3])
    text = head + yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    with pytest.raises(UsageError) as caught:
        from_yaml(text, file="cal.yaml")
    assert message in str(caught.value) and "cal.yaml" in str(caught.value)


def test_launches_are_kept_and_a_file_from_before_has_none() -> None:
    made = replace(calibration(), issue="graph", launches=(Launch("eager", 36.5, 34.25, 40.5, 20),))
    again = from_yaml(to_yaml(made), file="cal.yaml")
    assert (again.issue, again.launches) == (made.issue, made.launches)
    older = yaml.safe_load(TEXT)
    del older["issue"], older["launches"]
    read = from_yaml(yaml.safe_dump(older, allow_unicode=True), file="cal.yaml")
    assert (read.issue, read.launches) == ("library", ())


@given(cut=st.integers(0, len(TEXT)))
@settings(max_examples=60, deadline=None)
def test_half_a_file_is_refused(cut: int) -> None:
    try:
        read = rounded(TEXT[:cut])
    except UsageError as error:
        assert str(error).startswith("cal.yaml")
    else:
        assert read == TEXT or TEXT.startswith(TEXT[:cut])


@given(
    line=st.integers(3, len(LINES) - 1),
    junk=st.sampled_from(["", "x\n", "- 1\n", "  {\n", "a: &b 1\n", "? !!python/none x\n", "\x00"]),
)
@settings(max_examples=80, deadline=None)
def test_a_replaced_line_never_ends_in_a_traceback(line: int, junk: str) -> None:
    text = "".join([*LINES[:line], junk, *LINES[line + 1 :]])
    try:
        from_yaml(text, file="cal.yaml")
    except UsageError as error:
        assert str(error).startswith("cal.yaml")


def test_files_that_are_no_calibration_are_named(tmp_path: Path) -> None:
    missing, binary, hosts = (tmp_path / n for n in ("missing.yaml", "binary.yaml", "host.yaml"))
    binary.write_bytes(b"\xff\xfe\x00")
    save_calibration(of_host(), hosts)
    for path, message in (
        (missing, "cannot be read: No such file"),
        (binary, "not text"),
        (hosts, "a self-calibration, of one host's cores"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            load_system_calibration(path)
        assert str(path) in str(caught.value)
