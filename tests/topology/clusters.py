"""Leaf-spine clusters for tests of failures, checks and drawings."""

from __future__ import annotations

from functools import lru_cache

from clusterlab.topology.design.load import fabric_from_yaml
from clusterlab.topology.fabric import Fabric

_SUPERPOD = """\
name: {name}
description: {hosts} DGX H100
hosts: {{like: dgx-h100-2node, count: {hosts}}}
network:
  clos:
    - attach: "nic{{i}}"
      rails: 8
      hosts_per_su: 32
      spines: {spines}
      uplinks: 32
      {more}
      links: {{leaf: ndr, spine: ndr{core}}}
      oversubscription: 1.0
"""

_SMALL = """\
name: small
description: 4 hosts with 2 rails, 2 planes, cages
links:
  nvlink: {class: nvlink, GBps: 20, GBps_source: made up}
  pcie: {class: pcie, GBps: 48, GBps_source: made up}
  eth: {class: ethernet, GBps: 24, GBps_source: made up}
hosts:
  count: 4
  devices:
    - {name: "gpu{i}", kind: gpu, count: 2, rail: index, numa: index}
    - {name: "nic{i}", kind: nic, count: 2, rail: index, numa: index, cage: osfp0}
    - {name: "nvswitch{i}", kind: nvswitch, count: 2}
    - {name: "pcie{i}", kind: pcie_switch, count: 2}
    - {name: "cpu{i}", kind: cpu, count: 2, numa: index}
  links:
    - {from: "gpu*", to: "nvswitch*", type: nvlink, multiplicity: 2}
    - {from: "gpu{i}", to: "pcie{i}", type: pcie}
    - {from: "nic{i}", to: "pcie{i}", type: pcie}
    - {from: "pcie{i}", to: "cpu{i}", type: pcie}
    - {from: cpu0, to: cpu1, type: pcie}
network:
  clos:
    - attach: "nic{i}"
      rails: 2
      planes: 2
      hosts_per_su: 2
      spines: 4
      uplinks: 4
      links: {leaf: eth, spine: eth}
      oversubscription: 0.5
"""


@lru_cache
def small() -> Fabric:
    """4 hosts of 2 GPUs and 2 NICs; 2 SUs; 8 leaves in 2 planes, 4 spines, 2 cables from leaf to spine."""
    return fabric_from_yaml(_SMALL, file="small.yaml", default_name="small")


@lru_cache
def superpod(hosts: int, spines: int, *, cores: int = 0) -> Fabric:
    """DGX H100 in SUs of 32 hosts and 8 leaves; with ``cores`` three tiers, 4 SUs to a pod."""
    more = f"cores: {cores}\n      core_uplinks: 32\n      sus_per_pod: 4" if cores else ""
    text = _SUPERPOD.format(
        name=f"superpod-{hosts}",
        hosts=hosts,
        spines=spines,
        more=more,
        core=", core: ndr" if cores else "",
    )
    return fabric_from_yaml(text, file="superpod.yaml", default_name="superpod")
