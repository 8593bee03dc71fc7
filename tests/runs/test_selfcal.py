from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.errors import UsageError
from clusterlab.core.sizes import size_series
from clusterlab.cost.gloo.fit import MeasuredTime
from clusterlab.cost.predict import predict
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.runs.calibrating.calibration_plan import ENOUGH_SIZES, SIZES_BYTES, batches
from clusterlab.runs.calibrating.calibration_run import LocalTimes, Loop
from clusterlab.runs.calibrating.foreign_load import foreign_share
from clusterlab.runs.calibrating.selfcal import (
    calibration_path,
    fit_and_keep,
    kept_calibration,
    load_or_calibrate,
)
from clusterlab.topology.host import HostFacts, NumaDomain, host_fabric, read_host
from clusterlab.topology.place import place_on

FACTS = HostFacts("a", "some CPU", "Linux 6", (NumaDomain(0, (0, 1), 1 << 30),))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def made_up_times() -> list[MeasuredTime]:
    """Times of a host whose calls cost 200 µs and whose bytes cost 300 µs a MiB."""
    times = []
    for name in COLLECTIVES:
        op = "sum" if "reduce" in name else None
        dtypes = ("float32", "float16", "bfloat16") if op else ("float32",)
        for dtype in dtypes:
            for size in (1 << s for s in range(10, 25, 2)):
                time_us = 50 * 4 + 300 * size / (1 << 20)
                times += [MeasuredTime(name, dtype, op, 2, size, time_us * x) for x in (1, 1.02)]
    return times


def loops(times: list[MeasuredTime], foreign_load: float = 0.0) -> tuple[Loop, ...]:
    return tuple(Loop(t, foreign_load) for t in times)


def test_what_was_calibrated_is_kept_and_found_again(own_cache: Path) -> None:
    said: list[str] = []
    assert kept_calibration(FACTS, 2, "gloo", progress=said.append) is None
    measured = LocalTimes(loops(made_up_times()))
    fresh = fit_and_keep(measured, FACTS, 2, "gloo", progress=said.append)
    kept = kept_calibration(FACTS, 2, "gloo", progress=said.append)
    assert kept is not None, said
    assert kept.constants == fresh.constants
    assert kept.residuals == fresh.residuals
    assert not said
    assert calibration_path(FACTS, 2, "gloo").is_relative_to(own_cache)
    assert kept_calibration(FACTS, 3, "gloo", progress=said.append) is None


@pytest.mark.parametrize("damage", ["format: 1\nsystem: [", "format: 99\n", ""])
def test_a_file_that_cannot_be_used_is_said_and_measured_again(damage: str) -> None:
    path = calibration_path(FACTS, 2, "gloo")
    path.parent.mkdir(parents=True)
    path.write_text(damage)
    said: list[str] = []
    assert kept_calibration(FACTS, 2, "gloo", progress=said.append) is None
    assert "calibrating again" in said[0]
    assert str(path) in said[0]


def test_a_file_of_another_host_is_said_and_measured_again() -> None:
    other = HostFacts("b", "other CPU", "Linux 6", FACTS.domains)
    said: list[str] = []
    fit_and_keep(LocalTimes(loops(made_up_times())), FACTS, 2, "gloo", progress=said.append)
    calibration_path(FACTS, 2, "gloo").rename(calibration_path(other, 2, "gloo"))
    assert kept_calibration(other, 2, "gloo", progress=said.append) is None
    assert "made on another system: some CPU, 2 cores" in said[0]
    assert "expected other CPU, 2 cores" in said[0]


def test_a_cache_that_cannot_be_written_is_said_and_not_fatal(own_cache: Path) -> None:
    (own_cache / "clusterlab").write_text("in the way")
    said: list[str] = []
    fresh = fit_and_keep(LocalTimes(loops(made_up_times())), FACTS, 2, "gloo", progress=said.append)
    assert fresh.value("transport_us_per_MiB") > 0
    assert "used but not kept" in said[0]


def test_loops_beside_busy_others_do_not_count_where_there_are_better_ones() -> None:
    slow = [
        MeasuredTime(t.collective, t.dtype, t.op, 2, t.size_bytes, 3 * t.time_us)
        for t in made_up_times()
    ]
    mixed = LocalTimes(loops(slow, 0.4) + loops(made_up_times(), 0.01))
    assert {loop.foreign_load for loop in mixed.quietest()} == {0.01}
    said: list[str] = []
    quiet = fit_and_keep(LocalTimes(loops(made_up_times())), FACTS, 2, "gloo", progress=said.append)
    chosen = fit_and_keep(mixed, FACTS, 2, "gloo", progress=said.append)
    assert [c.value for c in chosen.constants[:-1]] == [c.value for c in quiet.constants[:-1]]
    assert not said


def test_a_calibration_on_a_busy_host_says_so_in_its_source() -> None:
    said: list[str] = []
    busy = fit_and_keep(
        LocalTimes(loops(made_up_times(), 0.4)), FACTS, 2, "gloo", progress=said.append
    )
    assert said == ["the calibration is rough: others used 40% of the cores meanwhile"]
    assert all("others used 40% of the cores" in c.source for c in busy.constants)


@pytest.mark.parametrize(
    ("everyone_s", "ranks_s", "share"),
    [(2.0, 2.0, 0.0), (2.0, 1.0, 0.5), (1.0, 1.1, 0.0), (5.0, 0.0, 1.0)],
)
def test_foreign_share(everyone_s: float, ranks_s: float, share: float) -> None:
    assert foreign_share(everyone_s, ranks_s, wall_s=1.0, cores=2) == share


def test_usual_sweeps_never_ask_for_a_size_of_the_calibration() -> None:
    for begin in (1, 5, 1000, 1024):
        assert not set(size_series(begin, 32 << 20)) & set(SIZES_BYTES)
    assert len(set(SIZES_BYTES)) == len(SIZES_BYTES) > ENOUGH_SIZES


def test_a_lone_rank_is_not_asked_to_send_to_itself() -> None:
    assert "send_recv" not in {p.collective for p in next(batches(1))}
    assert {p.collective for p in next(batches(2))} == set(COLLECTIVES)


def test_nccl_has_no_self_calibration() -> None:
    with pytest.raises(UsageError, match="no self-calibration for backend nccl; expected gloo"):
        load_or_calibrate(2, "nccl", progress=lambda _: None)


@pytest.mark.ranks
def test_this_host_is_calibrated_once_and_every_point_of_a_sweep_is_then_predicted() -> None:
    said: list[str] = []
    first = load_or_calibrate(2, progress=said.append, budget_s=1.0)
    assert "calibrating 2 gloo ranks on" in said[0]
    count = len(said)
    again = load_or_calibrate(2, progress=said.append, budget_s=1.0)
    assert again.constants == first.constants
    assert len(said) == count

    facts = read_host()
    fabric = host_fabric(facts)
    groups = one_group(place_on(fabric, 2))
    for name in COLLECTIVES:
        for dtype in ("float32", "float16", "bfloat16", "int8"):
            for size in size_series(1 << 10, 16 << 20):
                answer = predict(
                    PredictRequest(fabric, groups, name, size, dtype=dtype, calibration=first)
                )
                assert answer.time_us >= answer.bound.time_us > 0
                assert answer.interval is not None
                assert answer.provenance[0].source.startswith("self-calibration ")
