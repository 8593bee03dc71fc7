"""Versions and their constants."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl import loading
from clusterlab.cost.nccl.constants import constants_for, parse_version, typed_version

VERSIONS = [
    (library, version)
    for library in ("nccl", "rccl")
    for version in loading.known_versions(library)
]


@pytest.mark.parametrize(("library", "version"), VERSIONS)
def test_every_file_reads_and_names_its_source(library, version):
    constants = constants_for(version, library)
    assert constants.version == version
    assert constants.note == ""
    assert "https://github.com/" in constants.source
    assert set(constants.base_us) >= {"tree", "ring"}
    assert all(len(row) == 3 for row in constants.base_us.values())


@pytest.mark.parametrize("version", loading.known_versions("nccl"))
def test_every_nccl_file_is_complete_and_sane(version):
    constants = constants_for(version)
    for hops in constants.hop_us.values():
        assert set(hops) == set(constants.base_us)
        assert all(hop >= 0 for row in hops.values() for hop in row)
    for factors in constants.tree_correction.values():
        assert len(factors) == 24
        assert all(0 < factor <= 1 for factor in factors)
    for sm in (70, 80, 86, 90, 100, 103, 120):
        for speeds in constants.search_speeds_GBps(sm):
            assert all(a > b > 0 for a, b in pairwise(speeds))
        assert 10 < constants.nvlink_GBps(sm) < 50


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("2.26.6+cuda12.8", "2.26.2"),
        ("2.23", "2.23.4"),
        ("2.28.9", "2.28.9"),
        ("2.28.8", "2.28.7"),
        ("2.28", "2.28.9"),
        ("2.18.5", "2.18.3"),
        ("2.12.12+cuda11.6", "2.12.7"),
        ("NCCL version 2.21.5+cuda12.4", "2.21.5"),
        ("22809", "2.28.9"),
        ("(2, 27, 5)", "2.27.5"),
        ("", "2.30.3"),
        ("2.30.7", "2.30.3"),
    ],
)
def test_the_nearest_release_not_above_is_taken_without_a_word(asked, used):
    constants = constants_for(asked)
    assert (constants.version, constants.note) == (used, "")


@pytest.mark.parametrize(
    ("asked", "used", "said"),
    [
        ("2.9.9", "2.12.7", "older"),
        ("3.1.0", "2.30.3", "newer"),
        ("2.31.1", "2.30.3", "newer"),
        ("nightly", "2.30.3", "no version"),
    ],
)
def test_a_release_that_is_not_known_is_said_to_be_so(asked, used, said):
    constants = constants_for(asked)
    assert constants.version == used
    assert said in constants.note


def test_what_releases_changed_is_what_their_files_say():
    assert constants_for("2.29.2").ring_ll128_per_channel_GBps["blackwell"] == (34.5, 34.6, 34.5)
    assert constants_for("2.28.3").hop_us["net"]["nvls_tree"] == (0, 0, 14)
    assert constants_for("2.28.9").hop_us["net"]["nvls_tree"] == (0, 0, 20.9)
    assert constants_for("2.20.5").ll_max_GBps["hopper"] == (87.7, 22.5, 19.0)
    assert constants_for("2.21.5").ll_max_GBps["hopper"] == (141.0, 45.0, 35.0)
    assert constants_for("2.22.3").base_us["tree"] == (6.8, 14.0, 0)
    assert constants_for("2.17.1").generation(90) == "hopper"
    assert constants_for("2.14.3").generation(90) == "volta"
    assert constants_for("2.24.3").generation(100) == "hopper"
    assert constants_for("2.25.1").generation(100) == "blackwell"


def test_gpus_newer_than_the_release_take_the_speeds_of_the_newest_it_knows():
    assert constants_for("2.24.3").search_speeds_GBps(100) == constants_for(
        "2.24.3"
    ).search_speeds_GBps(90)
    assert constants_for("2.30.3").nvlink_GBps(86) == 12.0
    assert constants_for("2.30.3").nvlink_GBps(89) == 20.0


def test_a_key_that_the_next_release_lacks_is_refused():
    with pytest.raises(UsageError, match="unknown key 'rings'"):
        loading._over({"rules": {"ring": 1}}, {"rules": {"rings": 2}}, "nccl-0.yaml")


@pytest.mark.parametrize("text", ["", "abc", "2", "v2"])
def test_text_without_a_version_has_none(text):
    assert parse_version(text) is None


SPELLINGS = {
    "2.27.5": (2, 27, 5),
    "2.12.10": (2, 12, 10),
    " v2.27.5-1 ": (2, 27, 5),
    "NCCL 2.30.3": (2, 30, 3),
    "RCCL 2.21.5": (2, 21, 5),
    "2.26.6+cuda12.8": (2, 26, 6),
    "2.28.9-1+cuda13.0": (2, 28, 9),
    "22705": (2, 27, 5),
}


@pytest.mark.parametrize(("text", "numbers"), SPELLINGS.items())
def test_a_typed_version_is_read_in_every_spelling(text, numbers):
    assert parse_version(typed_version(text, where="--nccl-version")) == numbers


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("NCCL version 2.23.4+cuda12.6", (2, 23, 4)),
        ("n0:12:12 [0] NCCL INFO NCCL version 2.30.3 compiled with CUDA 13.0", (2, 30, 3)),
        ("RCCL version : 2.21.5-HEAD:0cbce2a", (2, 21, 5)),
        ("(2, 27, 5)", (2, 27, 5)),
    ],
)
def test_a_version_inside_other_text_is_found_but_not_taken_for_a_typed_one(line, numbers):
    assert parse_version(line) == numbers
    with pytest.raises(UsageError, match=r"^--nccl-version: .*; expected a version, as 2\.27\.5"):
        typed_version(line, where="--nccl-version")


@given(
    st.sampled_from(sorted(SPELLINGS)),
    st.text(min_size=1).filter(str.strip),
    st.text(),
)
@example("2.30.3", "; ls", "")
@example("2.30.3", "\n2.27.5", "")
@example("2.30.3", "", "x")
@example("2.30.3", ".4", "")
@example("2.30.3", "\u0663", "")
def test_anything_more_than_one_version_is_refused_or_a_version_itself(version, after, before):
    text = f"{before}{version.strip()}{after}"
    try:
        typed = typed_version(text, where="--nccl-version")
    except UsageError as error:
        assert "\n" not in str(error)
        return
    assert re.fullmatch(r"([NR]CCL +)?v?[0-9.]+(-[0-9]+)?(\+cuda[0-9.]+)?", typed, re.IGNORECASE)
    assert parse_version(typed) is not None


@pytest.mark.parametrize(
    "text", ["", " ", "2", "v2", "2.x", "newest", "2..3", "2.30.3.4", "2.30.", "٢.٣٠"]
)
def test_what_names_no_version_is_refused(text):
    with pytest.raises(UsageError, match="expected a version, as 2"):
        typed_version(text, where="--nccl-version")
