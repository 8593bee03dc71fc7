"""gres.conf of fabrics."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.exporting.gres import gres_conf
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device
from tests.topology.exporting.networks import rails


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_equal_hosts_share_lines_and_each_domain_has_its_cores() -> None:
    assert lines(gres_conf(load_fabric("superpod-h100-1su"))) == [
        "NodeName=n[0-30] Name=gpu Type=h100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env Cores=0-55",
        "NodeName=n[0-30] Name=gpu Type=h100 File=/dev/nvidia[4-7] Flags=nvidia_gpu_env Cores=56-111",
    ]


def test_what_it_says_is_what_the_shipped_example_says() -> None:
    from clusterlab.core.shipped import shipped

    example = (shipped("slurm") / "gres.conf").read_text()
    cores = dict(
        re.findall(r"Type=h100 File=/dev/nvidia(\d) Flags=nvidia_gpu_env Cores=(\S+)", example)
    )
    ours = {}
    for line in lines(gres_conf(load_fabric("dgx-h100"))):
        match = re.search(r"File=/dev/nvidia\[(\d)-(\d)\] Flags=nvidia_gpu_env Cores=(\S+)", line)
        assert match is not None
        ours |= {str(i): match[3] for i in range(int(match[1]), int(match[2]) + 1)}
    assert ours == cores


def test_amd_gpus_are_render_nodes() -> None:
    assert lines(gres_conf(load_fabric("mi300x")))[0].startswith(
        "NodeName=n0 Name=gpu Type=mi300x File=/dev/dri/renderD[128-131] Flags=amd_gpu_env"
    )


def test_hosts_that_differ_have_lines_of_their_own() -> None:
    fabric = rails(units=1, hosts=3, gpus=2)
    devices = tuple(d for d in fabric.devices if d.name not in ("n1/gpu1",))
    links = tuple(x for x in fabric.links if "n1/gpu1" not in (x.src, x.dst))
    found = lines(gres_conf(replace(fabric, devices=devices, links=links)))
    assert [line.split()[0] for line in found] == [
        "NodeName=n[0,2]",
        "NodeName=n[0,2]",
        "NodeName=n1",
    ]


def test_cores_that_are_unknown_are_left_out_and_said() -> None:
    text = gres_conf(rails(units=1, hosts=1, gpus=2))
    assert "Cores=" not in "".join(lines(text))
    assert "does not say which cores" in text


def test_a_fabric_without_gpus_is_refused() -> None:
    with pytest.raises(UsageError, match="no host has a GPU"):
        gres_conf(Fabric("f", (Device("n0", "host", host="n0"),), ()))
