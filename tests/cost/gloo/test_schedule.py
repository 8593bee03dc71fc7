import pytest

from clusterlab.core.collectives import SWEPT
from clusterlab.cost.gloo.schedule import SEGMENT_BYTES, gloo_schedule

N = 4


@pytest.mark.parametrize(
    ("collective", "sent_over_size"),
    [
        ("all_reduce", 2 * (N - 1)),
        ("reduce_scatter", 2 * (N - 1)),
        ("all_gather", N - 1),
        ("all_to_all", N - 1),
        ("all_to_all_v", N - 1),
        ("gather", (N - 1) / N),
        ("scatter", (N - 1) / N),
        ("broadcast", N - 1),
        ("reduce", N - 1 + (N - 1) / N),
        ("send_recv", N),
    ],
)
def test_bytes_are_those_counted_on_the_loopback_interface(
    collective: str, sent_over_size: float
) -> None:
    """Measured with 4 ranks, torch 2.13, 1–16 MiB: 6.02, 6.02, 3.01, 3.01, 3.00, 3.76, 4.01 times S."""
    size = 4 << 20
    assert gloo_schedule(collective, N, size).sent_bytes == pytest.approx(sent_over_size * size)


def test_reduce_scatter_is_an_all_reduce_and_a_copy() -> None:
    scatter, reduce = (gloo_schedule(c, 8, 1 << 20) for c in ("reduce_scatter", "all_reduce"))
    assert scatter.phases == reduce.phases
    assert scatter.copied_bytes == 8 * (1 << 20) + (1 << 20)
    assert reduce.copied_bytes == 0


@pytest.mark.parametrize(
    ("size", "segments"),
    [(1024, 2), (8 * SEGMENT_BYTES, 2), (8 * SEGMENT_BYTES + 1, 3), (64 * SEGMENT_BYTES, 16)],
)
def test_segments_per_rank(size: int, segments: int) -> None:
    """At least two, none over 1 MiB."""
    schedule = gloo_schedule("all_reduce", N, size)
    assert schedule.steps == 2 * (N - 1) * segments
    assert all(f.size_bytes <= SEGMENT_BYTES for p in schedule.phases for f in p.flows)


@pytest.mark.parametrize("collective", SWEPT)
def test_a_lone_rank_sends_nothing(collective: str) -> None:
    schedule = gloo_schedule(collective, 1, 1024)
    assert schedule.sends == schedule.sent_bytes == 0


def test_the_root_sends_first_in_a_broadcast_and_gathers_in_a_reduce() -> None:
    assert gloo_schedule("broadcast", 5, 1024, root=3).phases[0].flows[0].src == 3
    assert {f.dst for f in gloo_schedule("reduce", 5, 1024, root=3).phases[-1].flows} == {3}
