"""A lab with a fabric of a user who is not root; their Python has no numpy, so the plan is made before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clusterlab.lab.fabric_of_lab import open_lab_fabric
from tests.slurm.test_lab_nonroot import as_nobody, package, python_of_nobody

__all__ = ["package"]

SESSION = """
import json, sys
from dataclasses import dataclass
from pathlib import Path
from clusterlab.lab import control, labs, lifecycle, machine
from clusterlab.lab.fabric_files import write_network
from clusterlab.lab.wires import DataNetwork

@dataclass
class Planned:
    whole: DataNetwork
    design: str = ""
    several_nics: bool = True
    def network(self): return self.whole
    def text(self, broken=()): return ""

base, plans = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
whole, broken = map(DataNetwork.from_json, (plans["whole"], plans["broken"]))
spec = machine.sized(machine.observe(), fabric="lab-rails-4x2", **plans["shape"])
lab = lifecycle.up(spec, fabric=Planned(whole), base=base)
srun = ["srun", "-N4", "--ntasks-per-node=2", "sh", "-c", "echo $(hostname) $GLOO_SOCKET_IFNAME $SOURCENIC"]
print(json.dumps(sorted(labs.run(lab, srun).stdout.splitlines())))
look = ["sh", "-c", "tc qdisc; cat /proc/sys/net/ipv4/ip_forward"]
print(json.dumps(labs.run(lab, look, node="spine0").stdout.split()))
write_network(lab.layout, broken)
print(json.dumps(control.ask(lab.layout.control, "network")))
print(json.dumps(labs.run(lab, look, node="spine0").stdout.split()))
lifecycle.down(base=base)
base.rmdir()
"""


def test_a_user_who_is_not_root_has_a_lab_with_a_fabric_too(
    can_hold_labs: None, package: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("we are not root: the other tests here show it")
    python, base = python_of_nobody(), f"/tmp/cl-nobody-fabric-{os.getpid()}"
    fabric = open_lab_fabric("lab-rails-4x2", "pinned")
    plans = package / "plans.json"
    plans.write_text(
        json.dumps(
            {
                "shape": fabric.shape,
                "whole": fabric.network().to_json(),
                "broken": fabric.network(("leaf0/spine0:half", "leaf1/spine0")).to_json(),
            }
        )
    )
    plans.chmod(0o644)
    said = as_nobody(package, python, SESSION, base, str(plans))
    tasks, before, changed, after = map(json.loads, said.splitlines())
    assert tasks == [f"n{n} nic{i} 10.78.{i}.{10 + n}" for n in range(4) for i in range(2)]
    assert (before.count("200Mbit"), before[-1]) == (4, "1")
    assert changed == {"ok": True}
    assert after.count("100Mbit") == 1
