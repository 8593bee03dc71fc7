"""A smaller set of generated pairs than the benchmark's: compare and baseline decide rightly."""

from __future__ import annotations

from tests.benchmarks.bench_baseline import TIMES_NOISE, found_of, pairs, rates, times_noise


def test_decisions_on_pairs_with_known_truth() -> None:
    of = pairs(60, seed=3)
    truths = [pair.truth for pair in of]
    assert (truths.count("nothing"), truths.count("regression")) == (20, 30)
    for one in rates(of):
        assert one.share("nothing", "regression") <= 0.05, one
        assert one.share("regression", "improvement") == 0, one
        assert found_of(one.name, of, lambda c: times_noise(c) >= TIMES_NOISE) >= 0.95, one
        assert found_of(one.name, of, lambda c: c.factor >= 1.2) == 1, one
