"""Joined records in files: one YAML or JSON document, or a folder of them (a bundle).

A bundle holds either the whole record (``record.json``) or one file per rank, each a record of its own
with that rank and its node, which are then joined here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from clusterlab.binding.records.model import JoinedRecord, NodeRecord, RankRecord
from clusterlab.binding.records.reading import contradictions, read_record
from clusterlab.core.errors import StorageError, UsageError
from clusterlab.core.order import number_list
from clusterlab.formats.strict_yaml import MAX_BYTES, read_yaml

BUNDLE_FILE = "record.json"
MAX_FILES = 65_536
_MAX_JSON_BYTES = 64 << 20
_MAX_JSON_DEPTH = 32
_MOST_REFUSED = 4
_SUFFIXES = (".yaml", ".yml", ".json")


def load_record(path: Path) -> JoinedRecord:
    """The record in a file, or joined from the files of a folder. Raises UsageError."""
    if path.is_dir():
        return _load_folder(path)
    return _load_file(path)


def save_bundle(record: JoinedRecord, folder: Path) -> Path:
    """Write ``record`` into ``folder`` (made where absent); the file. Raises StorageError."""
    file = folder / BUNDLE_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(record_to_json(record), indent=1) + "\n")
        part.replace(file)
    except OSError as error:
        raise StorageError(f"bundle not written: {error.strerror}", where=str(file)) from None
    return file


def record_to_json(record: JoinedRecord) -> dict[str, Any]:
    """Plain data that ``read_record`` reads back; what is unknown is left out."""
    data: dict[str, Any] = {"schema": 1}
    if record.launcher:
        data["launcher"] = record.launcher
    slurm = _known(asdict(record.slurm))
    if slurm:
        data["slurm"] = slurm
    data["nodes"] = {host: _node_json(node) for host, node in record.nodes.items()}
    data["ranks"] = [_rank_json(rank) for rank in record.ranks]
    if record.missing_ranks:
        data["missing_ranks"] = list(record.missing_ranks)
    return data


def join_records(parts: list[JoinedRecord]) -> JoinedRecord:
    """One record of several: all ranks in rank order, each node once (the first that knows it)."""
    nodes: dict[str, NodeRecord] = {}
    for part in parts:
        for host, node in part.nodes.items():
            if host not in nodes or not nodes[host].gpus:
                nodes[host] = node
    ranks = sorted((r for part in parts for r in part.ranks), key=lambda r: (r.rank, r.host))
    here = {rank.rank for rank in ranks}
    missing = sorted({m for part in parts for m in part.missing_ranks} - here)
    first = next((p for p in parts if p.launcher), parts[0])
    slurm = next((p.slurm for p in parts if p.slurm.version or p.slurm.constrain_devices), None)
    joined = JoinedRecord(
        nodes=nodes,
        ranks=tuple(ranks),
        launcher=first.launcher,
        slurm=slurm or first.slurm,
        missing_ranks=tuple(missing),
    )
    return replace(joined, contradictions=contradictions(joined))


def _load_folder(folder: Path) -> JoinedRecord:
    whole = folder / BUNDLE_FILE
    if whole.is_file():
        return _load_file(whole)
    files = sorted(f for f in folder.iterdir() if f.suffix in _SUFFIXES and f.is_file())
    if not files or len(files) > MAX_FILES:
        raise UsageError(
            f"{len(files)} record files" if files else "no record in this folder",
            where=str(folder),
            expected=f"{BUNDLE_FILE}, or one .json or .yaml file per rank",
            fix="clusterlab doctor --bundle DIR writes one",
        )
    read, refused = _read_each(files)
    if not read:
        raise refused[0]
    parts = list(read.values())
    _one_job(parts, list(read))
    joined = join_records(parts)
    told = [f"left out, no record of a rank: {error}" for error in refused[:_MOST_REFUSED]]
    if len(refused) > len(told):
        told.append(f"left out: {len(refused) - len(told)} more files of {folder}")
    return replace(joined, contradictions=(*told, *joined.contradictions))


def _read_each(files: Sequence[Path]) -> tuple[dict[Path, JoinedRecord], list[UsageError]]:
    """The records of the files that are one, and what is wrong with the others."""
    read: dict[Path, JoinedRecord] = {}
    refused: list[UsageError] = []
    for file in files:
        try:
            read[file] = _load_file(file)
        except UsageError as error:
            refused.append(error)
    return read, refused


def _one_job(parts: list[JoinedRecord], files: list[Path]) -> None:
    """Raises UsageError where the files are of several jobs, or speak of one rank or node twice."""
    ranks: dict[int, Path] = {}
    jobs: dict[str, Path] = {}
    nodes: dict[str, tuple[set[str], Path]] = {}
    for part, file in zip(parts, files, strict=True):
        for rank in part.ranks:
            job = rank.job or rank.env.get("SLURM_JOB_ID")
            if job:
                jobs.setdefault(job, file)
            if ranks.setdefault(rank.rank, file) != file:
                raise _unrelated(f"rank {rank.rank} is also in {ranks[rank.rank].name}", file)
        for host, node in part.nodes.items():
            gpus = {g.pci for g in node.gpus}
            known, other = nodes.setdefault(host, (gpus, file))
            if gpus and known and gpus != known:
                raise _unrelated(f"{host} has other GPUs than in {other.name}", file)
    if len(jobs) > 1:
        (one, _), (two, file) = list(jobs.items())[:2]
        raise _unrelated(f"job {two}, other files are of job {one}", file)


def _unrelated(what: str, file: Path) -> UsageError:
    return UsageError(
        what,
        where=str(file),
        expected="a folder with the records of one job, one file per rank",
        fix="give one file, or a folder of one job",
    )


def _load_file(file: Path) -> JoinedRecord:
    data = _json(file) if file.suffix == ".json" else read_yaml(_text(file), file=str(file)).data
    return read_record(data, file=str(file))


def _text(file: Path, limit: int = MAX_BYTES) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(limit + 1)  # a pipe or device does not tell its size
        if len(data) > limit:
            raise UsageError("too long", where=str(file), expected=f"at most {limit} bytes")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("not text", where=str(file), expected="YAML or JSON") from None
    except OSError as error:
        raise UsageError(error.strerror or "not readable", where=str(file)) from None


def _json(file: Path) -> Any:
    text = _text(file, _MAX_JSON_BYTES)
    depth = _depth(text)
    if depth > _MAX_JSON_DEPTH:
        raise UsageError(
            "nested too deeply", where=str(file), expected=f"at most {_MAX_JSON_DEPTH} levels"
        )
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise UsageError(f"not JSON: {error.msg}", where=f"{file}:{error.lineno}") from None
    except ValueError as error:
        raise UsageError(f"not JSON: {error}", where=str(file)) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _depth(text: str) -> int:
    """At most how deeply ``text`` nests; brackets inside strings count, which only makes it stricter."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _known(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in data.items() if v is not None and v not in ("", (), {})}


def _node_json(node: NodeRecord) -> dict[str, Any]:
    data = _known({k: v for k, v in asdict(node).items() if k not in ("host", "numa")})
    for name in ("gpus", "nics", "mig"):
        if name in data:
            data[name] = [_known(item) for item in data[name]]
    data["numa"] = {str(k): number_list(v) for k, v in node.numa.items()}
    return data


def _rank_json(rank: RankRecord) -> dict[str, Any]:
    plain = asdict(rank)
    # An empty list is knowledge here (no device at all), unlike an absent one.
    kept = ("visible", "openable", "allocated", "used", "env")
    data = _known(plain) | {k: plain[k] for k in kept if plain[k] is not None}
    if rank.cpus is not None:
        data["cpus"] = number_list(rank.cpus)
    if rank.ephemeral_ports is not None:
        data["ephemeral_ports"] = "{}-{}".format(*rank.ephemeral_ports)
    if rank.container is not None:
        data["container"] = _known(plain["container"])
    return data
