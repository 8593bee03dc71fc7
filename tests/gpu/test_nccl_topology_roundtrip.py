"""NCCL's dump → fabric → NCCL's XML, loaded with NCCL_TOPO_FILE: NCCL's search gives the same graphs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from clusterlab.formats.nccl_graph import NcclGraph, parse_nccl_graph
from clusterlab.launch.gpus import visible_gpus
from clusterlab.topology.exporting.nccl_xml import to_nccl_xml
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.nccl_logs import read_nccl_logs
from clusterlab.topology.importing.nccl_xml import read_nccl_xml

pytestmark = pytest.mark.gpu

RANK = Path(__file__).parent / "all_reduce_rank.py"


@dataclass(frozen=True)
class Run:
    """What one run left: NCCL's topology and graphs, and its log."""

    topology: Imported
    graphs: dict[int, NcclGraph]
    log: str


def all_reduce(folder: Path, topology_file: Path | None = None) -> Run:
    """An all_reduce over all visible GPUs, with NCCL_TOPO_FILE if a file is given."""
    gpus = visible_gpus()
    if gpus < 2:
        pytest.skip("needs two GPUs")
    folder.mkdir()
    # What the machine's owner sets stays (NVLink multicast may have to be off); the rest would steer NCCL.
    kept = ("NCCL_NVLS_ENABLE", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")
    own = {k: v for k, v in os.environ.items() if k in kept or not k.startswith("NCCL_")}
    environ = own | {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH",
        "NCCL_TOPO_DUMP_FILE": str(folder / "topo.xml"),
        "NCCL_GRAPH_DUMP_FILE": str(folder / "graph.xml"),
    }
    if topology_file is not None:
        environ["NCCL_TOPO_FILE"] = str(topology_file)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={gpus}", str(RANK)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env=environ, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    graphs = parse_nccl_graph((folder / "graph.xml").read_text(), file="graph.xml")
    topology = read_nccl_xml((folder / "topo.xml").read_text(), file="topo.xml")
    return Run(topology, {graph.id: graph for graph in graphs}, done.stdout)


def test_our_export_leads_nccl_to_the_same_topology_and_graphs(tmp_path: Path) -> None:
    detected = all_reduce(tmp_path / "detected")
    ours = tmp_path / "ours.xml"
    ours.write_text(to_nccl_xml(detected.topology.fabric))
    loaded = all_reduce(tmp_path / "loaded", ours)
    assert f"NCCL_TOPO_FILE set by environment to {ours}" in loaded.log
    assert set(loaded.topology.fabric.devices) == set(detected.topology.fabric.devices)
    assert set(loaded.topology.fabric.links) == set(detected.topology.fabric.links)
    assert loaded.graphs == detected.graphs
    assert loaded.graphs[0].channels


def test_a_changed_export_changes_the_graphs(tmp_path: Path) -> None:
    """The twin that must differ: NCCL takes the link counts from the file, not from the machine."""
    detected = all_reduce(tmp_path / "detected")
    text = to_nccl_xml(detected.topology.fabric)
    if "<nvlink" not in text:
        pytest.skip("needs NVLink")
    ours = tmp_path / "one_link.xml"
    ours.write_text(re.sub(r'(<nvlink [^>]*count=)"[0-9]+"', r'\1"1"', text))
    assert all_reduce(tmp_path / "loaded", ours).graphs != detected.graphs


def test_the_log_of_the_run_gives_the_machine_of_its_dump(tmp_path: Path) -> None:
    run = all_reduce(tmp_path / "detected")
    logged = read_nccl_logs(run.log, file="log").fabric
    dumped = run.topology.fabric
    for kind in ("gpu", "nic", "pcie_switch"):
        of_log = {(d.name.rpartition("/")[2], d.pci) for d in logged.of_kind(kind)}  # type: ignore[arg-type]
        assert of_log == {(d.name.rpartition("/")[2], d.pci) for d in dumped.of_kind(kind)}  # type: ignore[arg-type]
