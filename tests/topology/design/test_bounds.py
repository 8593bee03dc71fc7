"""A few bytes of YAML never ask for more than a machine holds."""

from __future__ import annotations

import time

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import fabric_from_yaml
from clusterlab.topology.importing.registry import IMPORTERS, read_any

HEAD = "links: {x: {class: ib, GBps: 1, GBps_source: s}}\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "hosts: {devices: [{name: 'g{i}', kind: gpu, count: 20000}], "
            "links: [{from: 'g*', to: 'g*', type: x}]}",
            "400000000 links",
        ),
        (
            "hosts: {count: 9, devices: [{name: 'nic{i}', kind: nic, count: 2}]}\n"
            "network: {clos: [{attach: 'nic{i}', rails: 1000000000, hosts_per_su: 3, links: {leaf: x}}]}",
            "rails for 2 NICs",
        ),
        (
            "network: {devices: [{name: a, kind: leaf}, {name: b, kind: leaf}], "
            "links: [{from: a, to: b, type: x, multiplicity: 1000000000000}]}",
            "parallel links",
        ),
        ("hosts: {count: 1000000000, devices: [{name: g, kind: gpu}]}", "hosts"),
    ],
)
def test_more_than_a_machine_holds_is_refused_before_it_is_made(body: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fabric_from_yaml(HEAD + body, file="f.yaml", default_name="f")


def test_more_gpus_than_nccl_holds_are_refused() -> None:
    gpus = "".join(f'<pci busid="0:{i:x}:0.0"><gpu dev="{i}"/></pci>' for i in range(600))
    text = f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>'
    with pytest.raises(UsageError, match="600 GPUs"):
        read_any(text, file="x.xml")


@pytest.mark.parametrize("filler", [" " * 300_000, "\t" * 300_000, "\n" * 300_000, "# " * 150_000])
def test_no_recogniser_is_quadratic(filler: str) -> None:
    """A quadratic one takes minutes here (the test's own limit ends it), a linear one milliseconds."""
    for importer in IMPORTERS:
        started = time.perf_counter()
        importer.recognise(filler + "a: b\n" + filler)
        print(importer.kind, time.perf_counter() - started)
