"""The parts of the inference: pace and noise, densities, ways against the flows, gain, packing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.cost.flows.ends import ends_of
from clusterlab.cost.flows.traffic import fullness
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.routing.network import network_of
from clusterlab.topology.routing.policy import Pinned
from clusterlab.verdict.localise.crossed import crossed, joined
from clusterlab.verdict.localise.evidence import Evidence
from clusterlab.verdict.localise.infer import alike
from clusterlab.verdict.localise.informative import Unknown, next_round, pool_of
from clusterlab.verdict.localise.model import LEFT, Effects, log_density, log_left
from clusterlab.verdict.localise.pace import LEAST_NOISE, pace_and_noise
from clusterlab.verdict.localise.types import Crossed, Probe, Seen
from clusterlab.verdict.localise.ways import ways
from tests.verdict.localise.simulated import damaged, message_GBps, whole_field

SU = whole_field(open_fabric("superpod-h100-1su"))


def pairs_at_once(seed: int, ranks: int, each: int) -> list[Probe]:
    """Disjoint pairs of ranks on different hosts."""
    order = np.random.default_rng(seed).permutation(ranks).reshape(-1, 2).tolist()
    return [Probe("send_recv", (a, b)) for a, b in order if a // each != b // each]


@pytest.mark.parametrize("broken", [[], ["leaf3:half"], ["n2/nic1:half", "leaf0/spine1#3:0.3"]])
@pytest.mark.parametrize("name", ["lab-rails-4x2", "superpod-h100-1su"])
def test_simulated_messages_are_the_cost_rooms_flows(name: str, broken: list[str]) -> None:
    fabric = open_fabric(name)
    if name.startswith("lab") and broken:
        broken = ["leaf3:half"]
    field, hurt = whole_field(fabric), damaged(fabric, broken)
    network = network_of(hurt)
    for seed in range(3):
        probes = pairs_at_once(seed, len(field.host), len(fabric.on_host("n0", "gpu")))
        ends = [ends_of(hurt, network, [field.devices[r] for r in p.ranks]) for p in probes]
        (full,) = fullness(network, ends, "ring", (Pinned(),))
        wanted = [1 / max(f.nics, f.cables) for f in full]
        assert message_GBps(field, network, probes) == pytest.approx(wanted)


def test_what_a_message_should_get_is_what_the_flows_give_it() -> None:
    for seed in range(3):
        probes = pairs_at_once(seed, len(SU.host), 8)
        found = ways(SU, probes)
        assert found.GBps == pytest.approx(message_GBps(SU, SU.network, probes))
        assert (found.crowd >= 1 - 1e-12).all()
        assert (found.incidence.full <= 1).all()


def ring_GBps(hurt: Fabric, groups: list[tuple[int, ...]]) -> list[float]:
    """Of groups at once, each a ring over its hosts, by the flows on ``hurt``."""
    network = network_of(hurt)
    ends = [ends_of(hurt, network, [SU.devices[r] for r in ranks]) for ranks in groups]
    (full,) = fullness(network, ends, "ring", (Pinned(),))
    return [1 / max(f.nics, f.cables) for f in full]


def test_a_group_should_get_what_the_flows_of_its_ring_get() -> None:
    rails = [tuple(range(rail, len(SU.host), 8)) for rail in range(8)]
    found = ways(SU, [Probe("ring", ranks) for ranks in rails])
    assert found.GBps == pytest.approx(ring_GBps(SU.fabric, rails))


def test_groups_narrow_it_down_to_what_the_slow_ones_share() -> None:
    """A rail and a batch of hosts are slow: a NIC of that rail on one of those hosts."""
    hurt = damaged(SU.fabric, ["n6/nic2:half"])
    rails = [tuple(range(rail, len(SU.host), 8)) for rail in range(8)]
    batches = [tuple(range(first, first + 32)) for first in range(0, 224, 32)]
    evidence = Evidence(SU)
    for seed in range(3):
        draw = np.random.default_rng(seed)
        for groups in (rails, batches):
            rates = ring_GBps(hurt, groups) * np.exp(draw.normal(0, 0.03, len(groups)))
            evidence.add(tuple(Probe("ring", g) for g in groups), [Seen(float(r)) for r in rates])
    (fault,) = evidence.infer().answer.faults
    nics = {name for name in fault.components if " ↔ leaf" in name}
    assert nics == {f"n{host}/nic2 ↔ leaf2" for host in range(4, 8)}
    assert fault.left == pytest.approx(0.5, rel=0.1)


@given(
    st.integers(3, 400),
    st.floats(-3, 1),
    st.floats(0.01, 0.2),
    st.floats(0.0, 0.6),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_the_pace_is_the_fast_crowds_whatever_is_slow(
    many: int, pace: float, noise: float, slow: float, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    slow_ones = int(slow * many)
    values = pace + draw.normal(0, noise, many)
    values[:slow_ones] -= draw.uniform(0.9, 2.0)
    if many - slow_ones < 8:
        return
    found, spread = pace_and_noise(values)
    assert found == pytest.approx(pace, abs=max(2.5 * noise, 0.12))
    assert LEAST_NOISE <= spread <= max(2.5 * noise, 2 * LEAST_NOISE + 0.05)


def test_densities_are_densities() -> None:
    x = np.linspace(-4.4, 0.5, 400_001)
    for noise in (0.02, 0.05, 0.2):
        total = np.exp(log_density(x + 1, np.full(len(x), noise))).sum() * (x[1] - x[0])
        assert total == pytest.approx(1.0, abs=0.02)


@given(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.02, 1))
def test_what_is_left_falls_with_fullness_and_share(full: float, share: float, left: float) -> None:
    def at(f: float, s: float) -> float:
        pair = Crossed(np.zeros(1, int), np.zeros(1, int), np.array([f]), np.array([s]), 1)
        return float(log_left(pair, np.array([left]))[0, 0])

    assert at(full, share) <= 0
    assert at(1.0, share) <= at(full, share)
    assert at(full, 1.0) <= at(full, share) + 1e-12
    assert at(1.0, 1.0) == pytest.approx(np.log(left))


def test_the_sparse_product_gives_what_each_pair_for_itself_does() -> None:
    """A component's gain is the sum over what it touches, whether it fills those or not."""
    draw = np.random.default_rng(5)
    n, components, probes = 60, 7, 20
    key = np.sort(draw.choice(components * probes, n, replace=False))
    full = np.where(draw.random(n) < 0.5, 1.0, draw.uniform(0.3, 1.0, n))
    share = np.where(draw.random(n) < 0.7, 1.0, draw.uniform(0.1, 1.0, n))
    pairs = Crossed(key // probes, key % probes, full, share, probes)
    seen, noise, base = draw.normal(-0.2, 0.3, probes), np.full(probes, 0.05), -draw.random(probes)
    got = Effects(pairs, components).gains(seen, noise, base)
    for i in range(components):
        mine = np.flatnonzero(pairs.component == i)
        alone = sum(
            Effects(Crossed(np.zeros(1, int), np.zeros(1, int), full[[j]], share[[j]], 1), 1).gains(
                seen[pairs.probe[[j]]], noise[:1], base[pairs.probe[[j]]]
            )[0]
            for j in mine
        )
        assert got[i] == pytest.approx(alone)
    assert got.shape == (components, len(LEFT))


def test_a_round_has_each_rank_once_and_fills_no_cable_beyond_its_rate() -> None:
    pool = pool_of(SU)
    evidence = Evidence(SU)
    for number in range(4):
        found = evidence.infer()
        probes, told = next_round(SU, pool, [Unknown(found.more)], 0.05, number)
        assert told > 0
        ranks = [r for p in probes for r in p.ranks]
        assert len(ranks) == len(set(ranks))
        made = ways(SU, probes)
        assert (made.crowd <= 1 + 1e-6).all()
        evidence.add(probes, [Seen(float(rate)) for rate in made.GBps])
    assert len(evidence.infer().answer.faults) == 0


def test_what_is_known_tells_nothing_more() -> None:
    """Every further whole round tells less, of the same parts."""
    pool = pool_of(SU)
    evidence = Evidence(SU)
    told = []
    for number in range(6):
        probes, bits = next_round(SU, pool, [Unknown(evidence.infer().more)], 0.05, number)
        told.append(bits)
        evidence.add(probes, [Seen(float(rate)) for rate in ways(SU, probes).GBps])
    assert told[-1] < 0.2 * told[0]


def test_components_that_touch_the_same_are_alike_and_no_others() -> None:
    probes = (Probe("send_recv", (0, 8)), Probe("send_recv", (1, 17)))
    part = crossed(SU.components, ways(SU, probes).incidence)
    number = alike(SU.components, part)
    at = {name: number[i] for i, name in enumerate(SU.components.names)}
    assert at["n0/nic0 ↔ leaf0"] == at["n1/nic0 ↔ leaf0"] == at["rank 0 (n0/gpu0)"]
    assert at["n0/nic0 ↔ leaf0"] != at["n0/nic1 ↔ leaf1"]
    both = joined(
        [part, crossed(SU.components, ways(SU, (Probe("send_recv", (0, 16)),)).incidence)]
    )
    number = alike(SU.components, both)
    names = SU.components.names
    assert number[names.index("n0/nic0 ↔ leaf0")] != number[names.index("n1/nic0 ↔ leaf0")]


def test_a_failed_message_is_evidence_of_what_is_dead() -> None:
    evidence = Evidence(SU)
    for shift in (8, 16, 24):
        probes = tuple(Probe("send_recv", (a, (a + shift) % 248)) for a in range(8))
        evidence.add(probes, [Seen(0.0 if 3 in p.ranks else 45.0) for p in probes])
    (fault,) = evidence.infer().answer.faults
    assert fault.name == "n0/nic3 ↔ leaf3"
    assert fault.left < 0.05
