"""Joined records: what every rank of a job saw, read from and written to files."""

from clusterlab.binding.records.files import (
    BUNDLE_FILE,
    join_records,
    load_record,
    record_to_json,
    save_bundle,
)
from clusterlab.binding.records.model import (
    Container,
    GpuRecord,
    JoinedRecord,
    MigSlice,
    NicRecord,
    NodeRecord,
    RankRecord,
    Slurm,
)
from clusterlab.binding.records.reading import read_record

__all__ = [
    "BUNDLE_FILE",
    "Container",
    "GpuRecord",
    "JoinedRecord",
    "MigSlice",
    "NicRecord",
    "NodeRecord",
    "RankRecord",
    "Slurm",
    "join_records",
    "load_record",
    "read_record",
    "record_to_json",
    "save_bundle",
]
