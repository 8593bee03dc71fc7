"""``algo`` and ``proto`` cells: what counts as forced, what leaves the choice to NCCL, what nobody reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.cost.nccl.overrides import parse_overrides
from clusterlab.cost.nccl.words import NCCL_ALGORITHMS, NCCL_PROTOCOLS
from clusterlab.cost.scoring.choices import choice_of

VALUES = [
    *(("algo", "NCCL_ALGO", ours, theirs) for ours, theirs in NCCL_ALGORITHMS.items()),
    *(("proto", "NCCL_PROTO", ours, theirs) for ours, theirs in NCCL_PROTOCOLS.items()),
]


def read(column: str, cell: str) -> dict[str, str]:
    found = choice_of(cell if column == "algo" else "", cell if column == "proto" else "")
    assert found.unread == ()
    return dict(found.variables)


@pytest.mark.parametrize(("column", "variable", "ours", "theirs"), VALUES)
@pytest.mark.parametrize(
    "form",
    [
        "{}",
        " {} ",
        '"{}"',
        "{} (forced)",
        "{}(forced)",
        "{} ( Forced )",
        "forced {}",
        "{}, forced",
        "{} [forced]",
        "{variable}={}",
        "{variable} = {}",
        "-x {variable}={}",
        "export {variable}={}",
        "{variable}={} (forced)",
    ],
)
def test_a_value_that_names_one_plainly_is_what_ran(
    column: str, variable: str, ours: str, theirs: str, form: str
) -> None:
    for name in (ours, theirs, theirs.upper(), theirs.lower()):
        assert read(column, form.format(name, variable=variable)) == {variable: theirs}


@pytest.mark.parametrize(("column", "variable", "ours", "theirs"), VALUES)
@pytest.mark.parametrize(
    "form",
    [
        *("default", "default ({})", "{} (default)", "default: {}", "Default ({} large)"),
        *("{} (observed)", "observed {}", "{}, observed", "{}(per source)", "{} (auto)", "auto"),
        *("{} (not forced)", "{} (unforced)", "{} (chosen by NCCL)", "{} (per the log)"),
        *("", "-", "?", "none", "n/a", "unknown"),
    ],
)
def test_what_is_default_or_observed_leaves_the_choice_to_nccl(
    column: str, variable: str, ours: str, theirs: str, form: str
) -> None:
    for name in (ours, theirs):
        assert read(column, form.format(name)) == {}


@pytest.mark.parametrize(
    ("algo", "proto", "variables"),
    [
        ("Ring/LL128", "", {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL128"}),
        ("nvls_tree/simple", "", {"NCCL_ALGO": "NVLSTree", "NCCL_PROTO": "Simple"}),
        ("ring/ll (forced)", "LL128", {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL128"}),
        ("NCCL_ALGO=Ring NCCL_PROTO=LL", "", {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}),
        ("Ring", "LL", {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}),
        ("ring,tree", "^LL", {"NCCL_ALGO": "Ring,Tree", "NCCL_PROTO": "^LL"}),
        ("NVLS Tree", "LL 128", {"NCCL_ALGO": "NVLSTree", "NCCL_PROTO": "LL128"}),
        ("default", "simple", {"NCCL_PROTO": "Simple"}),
        # What was forced and nobody knows is for the prediction to refuse.
        ("Wombat (forced)", "", {"NCCL_ALGO": "Wombat"}),
    ],
)
def test_both_cells_together(algo: str, proto: str, variables: dict[str, str]) -> None:
    found = choice_of(algo, proto)
    assert dict(found.variables) == variables and found.unread == ()


@pytest.mark.parametrize(
    ("algo", "proto", "unread"),
    [
        (
            "mscclpp allreduce9 (NVLS zero-copy)",
            "",
            [("algo", "mscclpp allreduce9 (NVLS zero-copy)")],
        ),
        ("Wombat", "", [("algo", "Wombat")]),
        ("Ring + Tree", "Simple", [("algo", "Ring + Tree")]),
        ("LL128", "Tree", [("algo", "LL128"), ("proto", "Tree")]),
        ("NCCL_PROTO=Tree", "", [("algo", "NCCL_PROTO=Tree")]),
        ("NCCL_ALGO=0", "", [("algo", "NCCL_ALGO=0")]),
        ("x" * 500, "", [("algo", "x" * 500)]),
    ],
)
def test_what_nobody_reads_is_named_with_its_column(
    algo: str, proto: str, unread: list[tuple[str, str]]
) -> None:
    found = choice_of(algo, proto)
    assert list(found.unread) == unread
    assert dict(found.variables) == ({"NCCL_PROTO": "Simple"} if proto == "Simple" else {})


_PIECES = st.sampled_from(
    [
        *("Ring", "tree", "NVLS", "LL128", "NCCL_ALGO=", "NCCL_PROTO=", "(forced)", "forced"),
        *("default", "(per source)", "/", ",", ";", "^", ":", " ", "(", ")", "allreduce", "=", "π"),
    ]
)
_CELLS = st.one_of(st.text(max_size=40), st.lists(_PIECES, max_size=9).map("".join))


@given(_CELLS, _CELLS)
def test_every_cell_is_read_or_named_and_what_is_read_nccl_takes(algo: str, proto: str) -> None:
    found = choice_of(algo, proto)
    if "forced" not in (algo + proto).lower():
        parse_overrides(dict(found.variables))
    assert {column for column, _ in found.unread} <= {"algo", "proto"}
    assert all(cell.strip() for _, cell in found.unread)
