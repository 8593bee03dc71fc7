"""Numbers and numbered names in the order people count."""

from __future__ import annotations

from clusterlab.core.order import natural, number_list


def test_names_count_by_their_numbers() -> None:
    names = ["n10/nic2", "n2/nic10", "n2/nic9", "leaf", "n2"]
    assert sorted(names, key=natural) == ["leaf", "n2", "n2/nic9", "n2/nic10", "n10/nic2"]


def test_a_number_of_any_length_is_no_error() -> None:
    long = "n" + "9" * 5000
    assert sorted([long, "n1"], key=natural) == ["n1", long]


def test_lists_are_written_as_the_kernel_writes_them() -> None:
    assert number_list([8, 0, 1, 2, 3]) == "0-3,8"
    assert number_list([]) == ""
