"""Families on rings, chains and binomial trees: data arrives, counts are the closed form's."""

from __future__ import annotations

import pytest

from clusterlab.cost.schedules import chain, ring
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.shape import GroupShape
from tests.cost.schedules.families import assert_family, assert_faults_are_noticed, first

FAMILIES = (*ring.FAMILIES, *chain.FAMILIES)


def name(family: Family) -> str:
    return f"{family.collective}-{family.algorithm}"


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_data_arrives_and_counts_agree(family: Family) -> None:
    assert_family(family)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_a_dropped_or_doubled_transfer_is_noticed(family: Family) -> None:
    assert_faults_are_noticed(family, GroupShape(3))
    assert_faults_are_noticed(family, first(family, ranks=8))
