import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.failures.breakage import matcher, parse_breakage


@pytest.mark.parametrize(
    ("text", "name", "host", "cable", "left"),
    [
        ("leaf3/spine2#1", "leaf3/spine2", None, 1, 0.0),
        ("n5/nic3", "n5/nic3", None, None, 0.0),
        ("osfp4@n2", "osfp4", "n2", None, 0.0),
        ("osfp4@n2:half", "osfp4", "n2", None, 0.5),
        ("n3/gpu2/pcie2:half", "n3/gpu2/pcie2", None, None, 0.5),
        ("n3/gpu2/pcie2:x8/16", "n3/gpu2/pcie2", None, None, 0.5),
        ("leaf0/spine1:.25", "leaf0/spine1", None, None, 0.25),
        ("leaf0/spine1#0:25%", "leaf0/spine1", None, 0, 0.25),
        ("leaf0:down", "leaf0", None, None, 0.0),
        ("leaf0:0", "leaf0", None, None, 0.0),
        ("n0/0000:1b:00.0", "n0/0000:1b:00.0", None, None, 0.0),
        ("n0/0000:1b:00.0:half", "n0/0000:1b:00.0", None, None, 0.5),
    ],
)
def test_what_to_break_is_read(
    text: str, name: str, host: str | None, cable: int | None, left: float
) -> None:
    found = parse_breakage(text)
    assert (found.name, found.host, found.cable, found.left) == (name, host, cable, left)


@pytest.mark.parametrize("text", ["", "  ", "n0/gpu0:x8", "leaf0:16/8", "@n2", "osfp4@", "a@b#1"])
def test_what_cannot_be_read_is_refused_with_the_forms_it_takes(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        parse_breakage(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_breakage(text)
        matcher(found.name)("n0/gpu0")
    except UsageError:
        return
    assert 0 <= found.left < 1


def test_a_range_counts_numbers_and_a_star_stays_within_a_name() -> None:
    assert matcher("n[0-3,12]/nic*")("n12/nic0")
    assert not matcher("n[0-3]/nic*")("n12/nic0")
    assert not matcher("n*")("n0/nic0")
    assert matcher("n[08-11]")("n09")


@pytest.mark.parametrize("pattern", ["n[1-999999999]", "n[3-1]", "*a*b*c*d*e*f*g*h*i*"])
def test_absurd_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        matcher(pattern)
