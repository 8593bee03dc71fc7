"""System data sheets of NVIDIA aiconfigurator (its systems/*.yaml): bandwidths of one kind of node.

    gpu:  {mem_bw, mem_capacity, power, sm_version, …}
    node: {num_gpus_per_node, inter_node_bw, intra_node_bw, pcie_bw, p2p_latency, …}

Bandwidths are B/s per GPU in a single direction, latencies are seconds. What joins the GPUs is not said.
"""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from clusterlab.core.errors import UsageError
from clusterlab.formats.documents import read_document
from clusterlab.formats.fields import at, mapping, text, whole
from clusterlab.formats.strict_yaml import Document

MAX_GPUS = 1024

_KNOWN = re.compile(r"(?m)^[ \t]+num_gpus_per_node[ \t]*:")


@dataclass(frozen=True, slots=True)
class SystemSheet:
    """One kind of node. ``GBps`` is per GPU and direction by field (``intra_node``, ``pcie``, …), 1e9 B/s.

    ``latency_us`` likewise (``p2p``, ``inter_rack``); fields the sheet lacks are absent.
    """

    name: str
    gpus: int
    gpus_per_rack: int | None
    sm_version: int | None
    memory_bytes: int | None
    GBps: dict[str, float]
    latency_us: dict[str, float]


def recognise(text_: str) -> bool:
    """Whether this looks like such a sheet."""
    return _KNOWN.search(text_) is not None and re.search(r"(?m)^node\s*:", text_) is not None


def parse_aiconfigurator(text_: str, *, file: str) -> SystemSheet:
    """Read one. Raises UsageError naming file, line and field."""
    document = read_document(text_, file=file)
    mapping(document, (), None)
    node = mapping(document, ("node",), None)
    gpu = mapping(document, ("gpu",), None, optional=True)
    gpus = whole(document, ("node", "num_gpus_per_node"))
    if gpus > MAX_GPUS:
        raise UsageError(
            f"{gpus} GPUs",
            where=document.where("node", "num_gpus_per_node"),
            expected=f"at most {MAX_GPUS} in a node",
        )
    data_dir = text(document, ("data_dir",), default="")
    return SystemSheet(
        name=PurePosixPath(data_dir).name,
        gpus=gpus,
        gpus_per_rack=_count(document, "node", "num_gpus_per_rack"),
        sm_version=_count(document, "gpu", "sm_version") if gpu else None,
        memory_bytes=_count(document, "gpu", "mem_capacity") if gpu else None,
        GBps=_figures(document, node, "_bw", 1e-9),
        latency_us=_figures(document, node, "_latency", 1e6),
    )


def _count(document: Document, section: str, field: str) -> int | None:
    if at(document, (section, field)) is None:
        return None
    return whole(document, (section, field))


def _figures(
    document: Document, node: dict[str, object], suffix: str, scale: float
) -> dict[str, float]:
    """Fields of ``node`` that end in ``suffix``, scaled; those that are empty are left out."""
    found = {}
    for field, value in node.items():
        if not field.endswith(suffix) or value is None:
            continue
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value)  # noqa: PLW2901  # YAML 1.1 reads 450e9 as text
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < float(value) < math.inf:  # type: ignore[arg-type]
            raise UsageError(
                f"{str(value)[:60]!r}",
                where=document.where("node", field),
                expected="a number above 0, in B/s or s",
            )
        found[field.removesuffix(suffix)] = round(float(value) * scale, 9)  # type: ignore[arg-type]
    return found
