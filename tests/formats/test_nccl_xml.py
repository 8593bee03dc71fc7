"""NCCL's topology XML as plain data, and what is refused."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats import nccl_tables
from clusterlab.formats.nccl_xml import parse_nccl_xml, recognise, stated_rate
from tests.formats.nccl_examples import TOPOLOGY


def test_a_dump_is_read_attribute_by_attribute() -> None:
    system = parse_nccl_xml(TOPOLOGY, file="topo.xml")
    assert (system.version, system.unreadable) == (1, ())
    cpu, other = system.cpus
    assert (cpu.numa, cpu.logical_cpus, cpu.family, cpu.model) == (0, tuple(range(16)), 6, 143)
    assert other.logical_cpus == tuple(range(32, 48))
    (switch,) = cpu.children
    gpu_slot, nic_slot = switch.children
    (gpu,) = gpu_slot.gpus
    assert (gpu.dev, gpu.sm, gpu.rank, gpu.gdr) == (0, 90, 0, 1)
    assert [(link.target, link.count) for link in gpu.links] == [
        ("0000:07:00.0", 5),
        ("0000:06:00.0", 13),
    ]
    (net,) = nic_slot.nets
    assert (net.name, net.speed_Mbps, net.latency_us, net.guid) == ("mlx5_0", 400000, 0.0, "0xabc")
    assert [net.name for net in cpu.nets] == ["eth0"]


def test_what_nccls_own_reader_stops_at_is_told_with_its_line() -> None:
    told = parse_nccl_xml(
        '<?xml version="1.0"?>\n<system>\n\t<cpu numaid="0">7<x/></cpu>\n</system>', file="f"
    ).unreadable
    assert told == (
        "line 2: <system> without version",
        "line 1: an XML declaration",
        "line 3: a tab between elements",
        "line 3: text '7' inside <cpu>",
        "<x> elements, which it passes over",
    )
    many = '<system version="1"><cpu numaid="0">' + '<pci busid="0000:00:01.0"/>' * 300
    assert "302 elements" in parse_nccl_xml(many + "</cpu></system>", file="f").unreadable[0]
    split = TOPOLOGY.replace(' arch="x86_64"', '\n arch="x86_64"', 1)
    assert parse_nccl_xml(split, file="f").unreadable == ("a line break inside a tag",)


@pytest.mark.parametrize(
    ("changed", "to", "said"),
    [
        ('affinity="00000000,0000ffff"', 'affinity="0-15"', "f:2: affinity '0-15'"),
        ('<gpu dev="0"', '<gpu pci="0000:1b:00.0"', "f:5: <gpu pci=…> is not NCCL's schema"),
        ('<gpu dev="0"', '<gpu gputype="H100" dev="0"', "f:5: <gpu gputype=…>"),
        ('numaid="0" ', "", "f:2: <cpu> without numaid"),
        ('busid="0000:10:00.0" ', "", "f:3: <pci> without busid"),
        ('busid="0000:10:00.0"', 'busid="GPU0"', "f:3: busid 'GPU0'"),
        ('version="1"', 'version="7"', "f:1: topology version 7"),
        ('count="5"', 'count="five"', "f:6: count 'five'"),
        ('count="5" ', "", "f:6: <nvlink> without count"),
        ('latency="0.000000"', 'latency="nan"', "f:12: latency nan"),
        ("<system", "<systems", "f:28: not well-formed XML"),
    ],
)
def test_what_is_not_nccls_schema_is_refused_with_its_line(
    changed: str, to: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse_nccl_xml(TOPOLOGY.replace(changed, to, 1), file="f")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<system version='1'><node/></system>", "no <cpu>"),
        ("<system><gpu dev='0'/></system>", "<gpu> inside <system>"),
        ("<cpu numaid='0'/>", "the root element is <cpu>"),
        ("<graphs version='1'/>", "the root element is <graphs>"),
    ],
)
def test_other_documents_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_nccl_xml(text, file="f")


def test_only_nccls_files_are_recognised() -> None:
    assert recognise(TOPOLOGY)
    assert recognise("<!-- licence\n -->\n" + TOPOLOGY)
    assert recognise("<cpu numaid='0'></cpu>")
    assert recognise('<graphs version="1"></graphs>')
    assert not recognise('<?xml version="1.0"?><!DOCTYPE topology><topology version="2.0"/>')
    assert not recognise("<cpu model='x'/>")
    assert not recognise("GPU0 GPU1")
    assert not recognise("<!--" * 50_000)


@pytest.mark.parametrize(
    ("speed", "width", "GBps", "wire_GBps"),
    [
        ("8 GT/s", 16, 12, 15.75),
        ("16.0 GT/s PCIe", 16, 24, 31.51),
        ("32 GT/s PCIe/s", 16, 48, 63.02),
        ("64.0 GT/s PCIe", 16, 96, 126.03),
        ("2.5 GT/s", 1, 0.1875, 0.25),
        ("16 GT/s", 8, 12, 15.75),
    ],
)
def test_pcie_rates_are_nccls_and_the_wires(
    speed: str, width: int, GBps: float, wire_GBps: float
) -> None:
    text = TOPOLOGY.replace(
        'link_speed="32.0 GT/s PCIe" link_width="16"', f'link_speed="{speed}" link_width="{width}"'
    )
    rate = stated_rate(parse_nccl_xml(text, file="f").cpus[0].children[0])
    assert rate is not None
    assert (rate.GBps, rate.wire_GBps) == (GBps, wire_GBps)


@pytest.mark.parametrize("written", ['link_speed=""', 'link_speed="Unknown"', ""])
def test_a_rate_that_is_not_written_stays_unknown(written: str) -> None:
    text = TOPOLOGY.replace('link_speed="32.0 GT/s PCIe"', written, 1)
    assert stated_rate(parse_nccl_xml(text, file="f").cpus[0].children[0]) is None


def test_nccl_reads_speeds_by_their_beginning() -> None:
    assert nccl_tables.nccl_reads_as_GTps("32 GT/s PCIe/s") == 32
    assert nccl_tables.nccl_reads_as_GTps("16.0 GT/s PCIe") == 16
    assert nccl_tables.nccl_reads_as_GTps("16.0 GT/s") == 8  # matches nothing: Gen 3
    assert nccl_tables.nccl_reads_as_GTps("") == 8


def test_the_nearest_pcie_link_of_a_table_entry_is_itself() -> None:
    for GTps in (2.5, 5.0, 8.0, 16.0, 32.0, 64.0):
        for width in (16, 8, 4, 2, 1):
            rate = nccl_tables.pcie_rate(GTps, width)
            assert rate is not None
            near = nccl_tables.nearest_pcie(GBps=rate.GBps, wire_GBps=rate.wire_GBps)
            assert near is not None
            assert (near.GBps, near.wire_GBps) == (rate.GBps, rate.wire_GBps)
    assert nccl_tables.nearest_pcie(GBps=1000, wire_GBps=None) is None


@pytest.mark.parametrize(
    ("cpu", "GBps"),
    [
        (("x86_64", "GenuineIntel", 6, 0x8F), 22.0),
        (("x86_64", "GenuineIntel", 6, 0xCF), 40.0),
        (("x86_64", "GenuineIntel", 6, 85), 10.0),
        (("x86_64", "GenuineIntel", 6, 79), 6.0),
        (("x86_64", "AuthenticAMD", 175, 1), 16.0),
        (("arm64", None, None, None), 6.0),
        (("x86_64", None, None, None), None),
        ((None, None, None, None), None),
    ],
)
def test_what_nccl_counts_between_cpus(
    cpu: tuple[str | None, str | None, int | None, int | None], GBps: float | None
) -> None:
    assert nccl_tables.inter_cpu_GBps(*cpu) == GBps


def test_nvlink_and_xgmi_constants() -> None:
    wires = [nccl_tables.nvlink_wire_GBps(sm) for sm in (60, 70, 80, 86, 90, 100, 103, 120)]
    assert wires == [None, 25.0, 25.0, None, 25.0, 50.0, 50.0, None]
    assert [nccl_tables.nvlink_GBps(sm) for sm in (60, 70, 80, 86, 90, 100, 103)] == [
        18.0,
        20.0,
        20.0,
        12.0,
        20.6,
        40.1,
        40.1,
    ]
    names = [nccl_tables.gcn_name(gcn) for gcn in ("906", "910", "942", "gfx942")]
    assert names == ["gfx906", "gfx90a", "gfx942", "gfx942"]
    assert [nccl_tables.xgmi_GBps(n) for n in names] == [24.0, 36.0, 48.0, 48.0]
