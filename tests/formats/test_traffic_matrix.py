from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.uneven import matrix_name
from clusterlab.formats.traffic_matrix import read_traffic_matrix


def test_the_form_of_nccl_tests_is_read():
    text = "  100  200  150\n50 100 75\n\n300\t150 200\n"
    assert read_traffic_matrix(text, where="m") == ((100, 200, 150), (50, 100, 75), (300, 150, 200))


def test_fractions_keep_their_proportions():
    found = read_traffic_matrix("0.5 1e3\n0 2.25", where="m")
    assert matrix_name(found) == matrix_name(((2, 4000), (0, 9)))


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "nothing"), ("1 2\n3", "line 2"), ("1 2", "1 lines of 2 numbers"), ("1 x\n3 4", "line 1, number 2"),
     ("1 -2\n3 4", "line 1, number 2"), ("1 2\n3 inf", "line 2, number 2"), ("1 1/2\n3 4", "number 2"),
     ("1 1e999999999\n3 4", "number 2"), ("1 nan\n3 4", "number 2")],
)  # fmt: skip
def test_anything_else_is_refused_with_its_place(text, said):
    with pytest.raises(UsageError, match=said):
        read_traffic_matrix(text, where="m")
