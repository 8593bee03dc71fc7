"""Numbers of any length, as typed."""

from __future__ import annotations

import pytest

from clusterlab.binding.explain.options import _integer
from clusterlab.binding.masks.level_zero import evaluate_ze_mask
from clusterlab.binding.masks.numbers import leading_int32, whole_int32
from clusterlab.binding.records.fields import Fields, cpu_set, shown
from clusterlab.core.digits import BEYOND, saturated
from clusterlab.core.errors import UsageError

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("digits", "value"),
    [("", 0), ("0", 0), ("007", 7), ("0" * 5000 + "12", 12), ("9" * 19, 10**19 - 1)],
)
def test_digits_are_read_exactly_up_to_19_significant_ones(digits: str, value: int) -> None:
    assert saturated(digits) == value


def test_more_digits_are_beyond_every_64_bit_number() -> None:
    assert saturated(LONG) == BEYOND > 2**64 // 2


def test_strtol_saturates_at_any_length() -> None:
    assert leading_int32(LONG) == -1 == whole_int32(LONG)
    assert leading_int32("-" + LONG) == 0 == whole_int32("-" + LONG)
    assert whole_int32("0x" + "f" * 9000) == -1


def test_a_level_zero_entry_of_many_digits_names_nothing() -> None:
    assert evaluate_ze_mask(LONG, (1, 1)) == ()
    assert evaluate_ze_mask(f"{LONG}.{LONG},0.{LONG}", (1, 1), "COMPOSITE") == ()


def test_an_option_of_many_digits_is_refused() -> None:
    with pytest.raises(UsageError, match="at most"):
        _integer("srun", "ntasks", LONG)


@pytest.mark.parametrize(
    "value", [16**5000, [16**5000], {"a": 16**5000}], ids=["number", "list", "mapping"]
)
def test_a_field_with_a_number_of_many_digits_is_refused_by_name(value: object) -> None:
    fields = Fields({"error": value}, "file")
    with pytest.raises(UsageError, match=r"file\.error"):
        fields.text("error")
    with pytest.raises(UsageError, match="cpus"):
        cpu_set(value, "cpus")
    assert len(shown(value)) <= 90


def test_a_cpu_list_that_names_the_same_cpus_over_and_over_is_refused() -> None:
    assert len(cpu_set("0-65535," * 2, "cpus")) == 65536
    with pytest.raises(UsageError, match="CPUs named"):
        cpu_set("0-65535," * 8000, "cpus")
