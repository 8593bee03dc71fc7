"""The metrics that ``clusterlab export prom`` writes: name, unit, what it says. Names are an interface: sites
have dashboards on them.

Bandwidth is ``*_gbs`` (1e9 B/s) as NCCL Inspector has it (``nccl_bus_bandwidth_gbs``), time ``*_seconds`` as
Prometheus wants it. All are gauges: a textfile is a snapshot of the latest runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``unit`` is the end of its name where that is a unit of OpenMetrics, else empty."""

    name: str
    help: str

    @property
    def unit(self) -> str:
        """``seconds``, ``bytes``, ``ratio`` or nothing."""
        last = self.name.rpartition("_")[2]
        return last if last in ("seconds", "bytes", "ratio") else ""


_OF_SEVERAL = "of several groups, pairs or roots the one furthest below its prediction"

_ALL = (
    # one point: cluster, fabric, backend, collective, op, dtype, timing, place, group_kind, ranks, nodes,
    # size_bytes
    Metric("clusterlab_busbw_gbs", f"Measured bus bandwidth, 1e9 B/s; {_OF_SEVERAL}."),
    Metric("clusterlab_algbw_gbs", "Measured size over time, 1e9 B/s."),
    Metric("clusterlab_busbw_predicted_gbs", "Bus bandwidth predicted before it was measured."),
    Metric("clusterlab_busbw_predicted_low_gbs", "The prediction's interval begins here."),
    Metric("clusterlab_busbw_predicted_high_gbs", "The prediction's interval ends here."),
    Metric("clusterlab_busbw_bound_gbs", "Bus bandwidth that no schedule can beat on this fabric."),
    Metric("clusterlab_busbw_ratio", "Measured over predicted bus bandwidth."),
    Metric("clusterlab_collective_time_seconds", "Time of one call: a loop without clocks, divided."),
    Metric("clusterlab_collective_time_median_seconds", "Median over calls timed one by one."),
    Metric("clusterlab_collective_time_predicted_seconds", "Time of one call as predicted."),
    Metric("clusterlab_point_wrong_elements", "Wrong elements; absent where data was not checked."),
    Metric(
        "clusterlab_point_slow_runs",
        "The latest runs in a row, of those exported, in which this point lay below its interval.",
    ),
    Metric("clusterlab_point_rows", "Groups, pairs or roots measured at this point."),
    Metric("clusterlab_point_busbw_median_gbs", "Median bus bandwidth over them, 1e9 B/s."),
    # one collective of a run: cluster, fabric, backend, collective, group_kind, ranks, nodes
    Metric("clusterlab_collective_verdict", "1 for the verdict of the latest run, else 0."),
    Metric("clusterlab_collective_points", "Points of the latest run by verdict."),
    Metric(
        "clusterlab_collective_slow_runs",
        "The latest runs in a row, of those exported, whose verdict on this collective is slow.",
    ),
    Metric("clusterlab_collective_measured_timestamp_seconds", "When its latest run ended."),
    # one kind of run: cluster, fabric, kind, ranks, nodes
    Metric("clusterlab_run_info", "The latest run of its kind: ids and versions as labels."),
    Metric("clusterlab_run_verdict", "1 for the verdict of the latest run, else 0."),
    Metric("clusterlab_run_exit_code", "Of the latest run; absent while it runs or when killed."),
    Metric("clusterlab_run_end_timestamp_seconds", "When the latest run ended or was last heard of."),
    Metric(
        "clusterlab_run_success_timestamp_seconds",
        "When the latest run ended that ended with exit code 0 and held no wrong data.",
    ),
    Metric("clusterlab_run_duration_seconds", "How long the latest run's last attempt took."),
    Metric("clusterlab_run_measured_points", "Points that the latest run holds."),
    Metric("clusterlab_run_planned_points", "Points that it was to measure."),
    Metric("clusterlab_run_wrong_elements", "Wrong elements; absent where no data was checked."),
    Metric("clusterlab_run_gpus", "GPUs that the latest run's ranks drove."),
    Metric("clusterlab_run_findings", "Findings of the latest run by code and severity."),
    # one kind of training: cluster, fabric, backend, strategy, dtype, ranks, nodes
    Metric("clusterlab_train_step_seconds", "Median step without the first of each attempt."),
    Metric("clusterlab_train_step_predicted_seconds", "What a step should take, said before."),
    Metric("clusterlab_train_step_part_seconds", "Mean over those steps of each part of a step."),
    Metric("clusterlab_train_exposed_seconds", "Mean communication that nothing hid, by axis."),
    Metric("clusterlab_train_exposed_ratio", "Exposed communication over step time."),
    Metric("clusterlab_train_loss", "Loss of the last step."),
    Metric("clusterlab_train_steps", "Steps that the run holds."),
    Metric("clusterlab_train_memory_bytes", "The most that a rank held."),
    # the export itself: cluster
    Metric("clusterlab_export_left_out_points", "Points left out to keep the number of series."),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _ALL}
"""By name, in the order they are written."""
