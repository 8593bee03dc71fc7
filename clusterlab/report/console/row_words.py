"""What a row knows beside its table's figures, in one sentence each: its spread, what the library said."""

from __future__ import annotations

from clusterlab.core.rows import Row
from clusterlab.report.numbers import three_digits
from clusterlab.report.text import plain


def spread_words(row: Row) -> str:
    """``median 979 µs (95 %: 958 to 998), p99 1,640; 200 iterations, 3 stand out; ranks apart 12 µs, …``"""
    median = f"median {three_digits(row.time_us_p50)} µs"
    if row.p50_low_us is not None and row.p50_high_us is not None:
        median += f" (95 %: {three_digits(row.p50_low_us)} to {three_digits(row.p50_high_us)})"
    tail = "p95" if row.time_us_p99 is None else "p99"
    high = row.time_us_p95 if row.time_us_p99 is None else row.time_us_p99
    parts = [f"{median}, {tail} {three_digits(high)}, at most {three_digits(row.time_us_max)}"]
    if row.samples is not None:
        stand_out = f", {row.outliers} stand out" if row.outliers else ""
        budget = ", budget spent" if row.stopped_by == "budget" else ""
        parts.append(f"{row.samples} timed one by one{stand_out}{budget}")
    if row.rank_skew_us is not None:
        parts.append(f"slowest less fastest rank {three_digits(row.rank_skew_us)} µs")
    if row.arrival_skew_us is not None:
        parts.append(f"last call after the first {three_digits(row.arrival_skew_us)} µs")
    if row.gpu_clock_mhz is not None:
        temperature = "" if row.gpu_temp_c is None else f", {row.gpu_temp_c:.0f} °C"
        parts.append(f"GPUs at {row.gpu_clock_mhz:.0f} MHz{temperature}")
    if row.throttled:
        parts.append(f"held back: {row.throttled}")
    parts += [f"{row.aggregated} calls a group"] if row.aggregated > 1 else []
    parts += ["the host waits after each"] if row.blocking else []
    parts += [f"memory of {row.memory}"] if row.memory else []
    return plain("; ".join(parts))


def library_words(row: Row) -> str:
    """``expected 13.2 µs; P2P/CUMEM; 2.28.9, driver 580.65``; empty where the library said nothing."""
    parts = []
    if row.library_time_us is not None:
        parts.append(f"expected {three_digits(row.library_time_us)} µs")
    if row.transport:
        parts.append(row.transport)
    if row.gdr is not None:
        parts.append(f"NICs {'reach' if row.gdr else 'do not reach'} GPU memory directly")
    versions = [row.library_version or ""]
    versions += [f"driver {row.driver_version}"] if row.driver_version else []
    parts.append(", ".join(v for v in versions if v))
    return plain("; ".join(part for part in parts if part))
