from __future__ import annotations

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Severity
from clusterlab.topology.importing.ibstat import read_ibstat, recognise
from tests.formats.test_ibstat import IBSTAT, IBSTATUS
from tests.support import shared_dir
from tests.topology.importing.mangled import mangled


def ibstat(*ports: tuple[str, str, str, int, str]) -> str:
    """Lines of ibstat for (device, model, state, rate, link layer)."""
    return "".join(
        f"CA '{name}'\n\tCA type: {model}\n\tPort 1:\n\t\tState: {state}\n\t\tRate: {rate}\n"
        f"\t\tLink layer: {layer}\n"
        for name, model, state, rate, layer in ports
    )


def test_each_port_is_a_link_to_something_outside() -> None:
    found = read_ibstat(ibstat(("mlx5_0", "MT4129", "Active", 400, "InfiniBand")), file="x")
    (nic,) = found.fabric.of_kind("nic")
    (far,) = found.fabric.of_kind("external")
    assert (nic.name, nic.host, nic.interface, nic.model) == ("n0/mlx5_0", "n0", "mlx5_0", "MT4129")
    out, back = found.fabric.links
    assert (out.src, out.dst, back.dst) == (nic.name, far.name, nic.name)
    assert (out.link_class, out.GBps, out.health) == ("ib", 50.0, 1.0)
    assert found.findings == ()


def test_four_lanes_of_edr_beside_ethernet_are_100_gigabit_ethernet() -> None:
    found = read_ibstat(IBSTATUS, file="x")
    assert {(k.link_class, k.GBps) for k in found.fabric.links} == {("ethernet", 12.5)}


def test_ports_that_are_not_active_have_no_rate_and_no_capacity() -> None:
    found = read_ibstat(IBSTAT, file="x")
    assert {(k.GBps, k.wire_GBps, k.health) for k in found.fabric.links} == {(None, None, 0.0)}
    assert [f.code for f in found.findings] == ["port_down"]
    assert "mlx4_0 port 2: Down" in found.findings[0].evidence[1]
    assert "subnet manager" in found.findings[0].fix


@pytest.mark.parametrize(
    ("rate", "data", "wire"),
    [(10, 1.0, 1.25), (40, 4.0, 5.0), (56, 6.788, 7.0), (100, 12.5, 12.5), (200, 25, 25)],
)
def test_infiniband_rates_up_to_fdr_are_signalling_rates(
    rate: int, data: float, wire: float
) -> None:
    found = read_ibstat(ibstat(("mlx4_0", "MT4099", "Active", rate, "InfiniBand")), file="x")
    link = found.fabric.links[0]
    assert (link.GBps, link.wire_GBps) == pytest.approx((data, wire), abs=1e-3)


def test_equal_adapters_at_different_rates_are_told() -> None:
    text = ibstat(
        *((f"mlx5_{i}", "MT4129", "Active", 400, "InfiniBand") for i in range(3)),
        ("mlx5_3", "MT4129", "Active", 200, "InfiniBand"),
        ("mlx5_4", "MT4125", "Active", 100, "Ethernet"),
    )
    (finding,) = read_ibstat(text, file="x").findings
    assert finding.code == "mixed_rates"
    assert finding.severity is Severity.WARNING
    assert "200 Gb/s: mlx5_3 port 1" in finding.evidence
    assert not any("mlx5_4" in line for line in finding.evidence)


def test_a_port_that_was_cut_off_is_told() -> None:
    (finding,) = read_ibstat("CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n", file="x").findings
    assert finding.code == "incomplete_ports"
    assert finding.evidence == ("x:2: mlx5_0 port 1 has no rate, no link layer",)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mangled_text_is_imported_or_refused_in_words(data: st.DataObject) -> None:
    text = data.draw(mangled(data.draw(st.sampled_from([IBSTAT, IBSTATUS]))))
    try:
        found = read_ibstat(text, file="x")
    except UsageError as error:
        assert str(error).startswith("x:")
    else:
        assert found.fabric.of_kind("nic")


def test_samples_have_the_devices_they_are_known_for() -> None:
    samples = shared_dir() / "samples"
    with (samples / "expect.csv").open() as table:
        rows = [row for row in csv.DictReader(table) if row["kind"] == "ibstat"]
    assert rows
    for row in rows:
        text = (samples / row["path"]).read_text()
        assert recognise(text)
        found = read_ibstat(text, file=row["path"])
        assert len(found.fabric.of_kind("nic")) == int(row["nics"]), row["path"]
