"""Predictions by a calibration: whatever it holds they rise with the size and stay above the bound."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.calibrated.calibration import Factors, FittedConstant, SystemCalibration
from clusterlab.cost.calibrated.correction import KNOTS_BYTES, NONE, Correction
from clusterlab.cost.calibrated.interval import OTHER_RANKS, OTHER_VERSION
from clusterlab.cost.calibrated.parameters import MOST_SIGMAS, NAMES, SIGMAS, moved, unit_of
from clusterlab.cost.effects.constants import shipped_effects
from clusterlab.cost.host_overhead import SAME_FROM_BYTES, Launch
from clusterlab.cost.nccl.explain import explain
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Issue, PredictRequest
from tests.cost.calibrated.examples import (
    COLLECTIVES,
    built,
    calibration,
    fabric_of,
    made_points,
    noisy,
    request,
)

SIZES = [1, 3, 8, *(1 << e for e in range(5, 34)), 3 << 20, 100_000_000]
EVERY = (*COLLECTIVES, "broadcast", "reduce", "send_recv")


@st.composite
def calibrations(draw: st.DrawFn, chip: str, network: str | None, fabric: str) -> SystemCalibration:
    """Any that the file's limits allow: constants and factors as wild as they may be."""
    table = shipped_effects()
    middle = {**table.chips[chip], **table.networks[network or "ib"], **table.shared}
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=12, unique=True))
    logs = {n: draw(st.floats(-MOST_SIGMAS, MOST_SIGMAS)) * SIGMAS[n] for n in names}
    constants = tuple(
        FittedConstant(n, moved(n, middle[n], x), unit_of(n), middle[n]) for n, x in logs.items()
    )
    factor = st.floats(0.3, 3.0)
    factors = tuple(
        Factors(c, KNOTS_BYTES, tuple(draw(factor) for _ in KNOTS_BYTES)) for c in COLLECTIVES
    )
    return replace(
        calibration(), machine=made_points(fabric, (2,), sizes=[1024], taking=lambda _: 1.0)[0].machine,
        chip=chip, network=network, constants=constants, factors=factors,
    )  # fmt: skip


def rises_above_the_bound(
    made: SystemCalibration, fabric: str, ranks: int, collective: str
) -> None:
    before_us = 0.0
    for size in sorted(SIZES):
        found = predict(request(fabric, ranks, collective, size, made))
        assert found.time_us >= before_us * (1 - 1e-12), size
        assert found.time_us >= found.bound.time_us
        assert found.interval is not None
        assert found.bound.time_us <= found.interval.low_us <= found.interval.high_us
        before_us = found.time_us


@given(data=st.data(), ranks=st.sampled_from([2, 3, 8]), collective=st.sampled_from(EVERY))
@settings(max_examples=20, deadline=None)
def test_one_node(data: st.DataObject, ranks: int, collective: str) -> None:
    made = data.draw(calibrations("hopper", None, "hgx-h100"))
    rises_above_the_bound(made, "hgx-h100", ranks, collective)


@given(data=st.data(), collective=st.sampled_from(EVERY))
@settings(max_examples=10, deadline=None)
def test_two_nodes(data: st.DataObject, collective: str) -> None:
    made = data.draw(calibrations("hopper", "ib", "dgx-h100-2node"))
    rises_above_the_bound(made, "dgx-h100-2node", 16, collective)


@pytest.mark.parametrize("collective", EVERY)
@pytest.mark.parametrize("size", [8, 1 << 14, 1 << 20, 1 << 28])
def test_every_calibrated_prediction_has_an_interval_around_it(collective: str, size: int) -> None:
    for ranks in (2, 4, 8):
        found = predict(request("hgx-h100", ranks, collective, size, calibration()))
        assert found.interval is not None
        assert found.interval.low_us < found.time_us < found.interval.high_us
        assert 0.0 <= found.interval.coverage <= 1.0


def notes(asked: PredictRequest) -> str:
    return "; ".join(predict(asked).notes)


def width(asked: PredictRequest) -> float:
    interval = predict(asked).interval
    assert interval is not None
    return interval.high_us / interval.low_us


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"collective": "broadcast"}, "broadcast was not calibrated (all_gather, "),
        ({"ranks": 4}, "4 ranks: calibrated with 2, 8"),
        ({"size_bytes": 8}, "a size outside 1 KiB to 256 MiB, where all_reduce was calibrated"),
        ({"size_bytes": 1 << 32}, "a size outside 1 KiB to 256 MiB"),
        ({"version": "2.30.7"}, "NCCL 2.30.7: calibrated with 2.27.5; the interval is wider by 4%"),
    ],
)
def test_what_was_not_measured_is_said(changed: dict[str, object], note: str) -> None:
    seen = {"fabric": "hgx-h100", "ranks": 8, "collective": "all_reduce", "size_bytes": 1 << 20}
    assert note in notes(request(**{**seen, "calibration": calibration(), **changed}))  # type: ignore[arg-type]
    assert "calibrated" not in notes(request(**seen, calibration=calibration()))  # type: ignore[arg-type]


def test_nodes_and_ways_that_were_not_measured_are_said() -> None:
    found = predict(request("dgx-h100-2node", 16, "all_reduce", 1 << 20, calibration()))
    assert {"16 ranks: calibrated with 2, 8", "2 nodes: calibrated with 1"} <= set(found.notes)
    asked = request("hgx-h100", 8, "all_reduce", 1 << 20, calibration())
    off = replace(asked, overrides={"NCCL_P2P_DISABLE": "1"})
    assert (
        "copies through the host's memory between the ranks: calibrated with peer access"
        in notes(off)
    )


def test_what_was_not_measured_widens_the_interval() -> None:
    made = calibration()
    asked = request("hgx-h100", 8, "all_reduce", 1 << 20, made)
    assert width(replace(asked, library_version="2.30.7")) == pytest.approx(
        width(replace(asked, library_version="2.27.5")) * OTHER_VERSION**2
    )
    assert width(request("dgx-h100-2node", 16, "all_reduce", 1 << 20, made)) >= width(asked)
    alone = built(
        noisy(made_points("hgx-h100", (8,), taking=lambda r: predict(r).time_us), noise=0.03)
    )
    assert alone.scores[0].left_out == "sizes" and len(alone.scores) == 1
    inside, outside = (request("hgx-h100", n, "all_reduce", 1 << 20, alone) for n in (8, 2))
    assert width(outside) == pytest.approx(width(inside) * OTHER_RANKS**2)


def test_without_a_version_the_newest_calibrated_one_chooses() -> None:
    plain = request("hgx-h100", 8, "all_reduce", 1 << 23, calibration(), version=None)
    named = replace(plain, library_version="2.27.5")
    assert predict(plain).time_us == predict(named).time_us
    assert "NCCL" not in notes(plain)


def test_the_source_of_the_constants_is_the_calibration() -> None:
    found = predict(request("hgx-h100", 8, "all_reduce", 1 << 20, calibration()))
    base = next(c for c in found.provenance if c.name.startswith("base"))
    assert base.source == "calibrated on made up, 1 rows, 2026-11-30"
    assert base.value == pytest.approx(
        next(c.value for c in calibration().constants if c.name == "base_us")
    )


@pytest.mark.parametrize("fabric", ["hgx-h200", "hgx-a100", "mi300x", "h100-2", "l40s-8"])
def test_another_systems_calibration_is_refused_naming_both(fabric: str) -> None:
    asked = request(
        fabric, len(fabric_of(fabric).of_kind("gpu")), "all_reduce", 1 << 20, calibration()
    )
    with pytest.raises(UsageError) as caught:
        predict(asked)
    text = str(caught.value)
    assert "made on another system: made up (8 x H100 a host, NVSwitch, nccl)" in text
    assert f"expected {fabric} (" in text


def test_a_calibration_of_nccl_is_no_good_for_gloo() -> None:
    asked = replace(request("hgx-h100", 8, "all_reduce", 1 << 20, calibration()), backend="gloo")
    with pytest.raises(UsageError, match="a calibration of NCCL"):
        predict(asked)


@pytest.mark.parametrize("collective", EVERY)
def test_the_parts_of_the_explanation_add_up(collective: str) -> None:
    why = explain(request("hgx-h100", 8, collective, 1 << 26, calibration()))
    assert why is not None
    assert sum(part.us for part in why.parts) == pytest.approx(why.formula_us)


def test_the_interval_of_an_eager_call_starts_where_calls_can_be_issued() -> None:
    asked = replace(request("hgx-h100", 8, "all_reduce", 8, calibration()), issue="eager")
    found = predict(asked)
    assert found.interval is not None
    # What eager calls took on the machine whose launch is shipped.
    assert (found.interval.low_us, found.time_us, found.interval.high_us) == (34.0, 38.0, 40.0)


def test_a_launch_measured_on_the_system_takes_the_place_of_the_shipped_one() -> None:
    launch = Launch("eager", 60.0, 55.0, 70.0, 12)
    made = replace(calibration(), launches=(launch,))
    found = predict(
        replace(request("hgx-h100", 8, "all_reduce", 8, calibration=made), issue="eager")
    )
    assert found.interval is not None
    assert (found.interval.low_us, found.time_us, found.interval.high_us) == (55.0, 60.0, 70.0)
    assert found.provenance[-1].source == made.source
    direct = predict(request("hgx-h100", 8, "all_reduce", 8, calibration=made))
    assert direct.time_us < 30.0


@pytest.mark.parametrize("issue", ["eager", "graph", "library"])
@pytest.mark.parametrize("size", [8, SAME_FROM_BYTES - 1, SAME_FROM_BYTES])
def test_a_way_of_issuing_calls_that_was_not_measured_is_said_where_it_counts(
    issue: Issue, size: int
) -> None:
    made = replace(calibration(), issue="graph")
    asked = replace(request("hgx-h100", 8, "all_reduce", size, calibration=made), issue=issue)
    said = [note for note in predict(asked).notes if note.startswith("timing")]
    assert bool(said) is (issue != "graph" and size < SAME_FROM_BYTES)


def test_a_correction_is_flat_beyond_its_ends_and_passes_its_knots() -> None:
    made = Correction((1024, 4096, 65536), (0.9, 1.2, 1.0))
    assert [made.at(s) for s in (1, 1024, 4096, 65536, 1 << 40)] == [0.9, 0.9, 1.2, 1.0, 1.0]
    assert made.at(2048) == pytest.approx(math.sqrt(0.9 * 1.2))
    assert NONE.at(5) == 1.0
