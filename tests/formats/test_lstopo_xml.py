"""hwloc's XML in its three versions."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.lstopo_xml import parse_lstopo_xml, recognise

TEXT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000003,0x0000000f" nodeset="0x00000001" gp_index="1">
    <info name="HostName" value="a01"/>
    <object type="PCIDev" gp_index="7" pci_busid="0000:34:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1"
        pci_link_speed="15.753846">
      <object type="OSDev" gp_index="8" name="nvml0" osdev_type="1"/>
      <object type="OSDev" gp_index="9" name="mlx5_0" osdev_type="3"/>
    </object>
  </object>
  <distances2 type="OSDev" nbobjs="2" kind="9" name="XGMIBandwidth" indexing="gp">
    <indexes length="4">8 9 </indexes>
    <u64values length="9">0 5 </u64values>
    <u64values length="9">5 0 </u64values>
  </distances2>
  <distances2 type="OSDev" nbobjs="2" kind="9" name="Short" indexing="gp">
    <indexes length="4">8 9 </indexes>
    <u64values length="9">0 5 </u64values>
  </distances2>
</topology>
"""


def test_objects_keep_what_is_said_of_them() -> None:
    assert recognise(TEXT)
    parsed = parse_lstopo_xml(TEXT, file="t.xml")
    machine, card, gpu, nic = parsed.machine.walk()
    assert parsed.version == 2
    assert machine.infos == {"HostName": "a01"}
    assert machine.cpuset == 0x3_0000_000F
    assert (card.pci, card.pci_class, card.vendor, card.link_GBps) == (
        "0000:34:00.0",
        "0302",
        "10de",
        15.753846,
    )
    assert (gpu.osdev, nic.osdev) == ({"gpu"}, {"openfabrics"})
    assert card.line == 6


def test_matrices_are_whole_or_named_by_line() -> None:
    parsed = parse_lstopo_xml(TEXT, file="t.xml")
    (matrix,) = parsed.matrices
    assert (matrix.name, matrix.objects, matrix.values) == ("XGMIBandwidth", (8, 9), (0, 5, 5, 0))
    assert parsed.unreadable == (17,)


@pytest.mark.parametrize(
    ("version", "said", "osdev"),
    [
        ("", "3", {"openfabrics"}),
        (' version="2.0"', "2", {"network"}),
        (' version="3.0"', "48", {"network", "openfabrics"}),
        (' version="3.0"', "12", {"gpu", "coproc"}),
        (' version="2.0"', "99", set()),
        (' version="2.0"', "-1", set()),
    ],
)
def test_the_type_of_an_os_device_depends_on_the_version(
    version: str, said: str, osdev: set[str]
) -> None:
    text = f'<topology{version}><object type="OSDev" osdev_type="{said}"/></topology>'
    assert parse_lstopo_xml(text, file="t").machine.osdev == osdev


@pytest.mark.parametrize(
    ("cpuset", "mask"),
    [
        ("0x0000000f", 15),
        ("0x1,,0x1", 1 << 64 | 1),
        ("0xf...f", None),
        ("0xzz", None),
    ],
)
def test_bit_masks_without_end_are_unknown(cpuset: str, mask: int | None) -> None:
    text = f'<topology><object type="Machine" cpuset="{cpuset}"/></topology>'
    assert parse_lstopo_xml(text, file="t").machine.cpuset == mask


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<topology>", "t:1: not well-formed XML"),
        ("<system/>", "t:1: root element <system>"),
        ("\n<topology/>", "t:2: a topology without objects"),
        ('<topology version="7.1"/>', "t:1: hwloc XML version '7.1'"),
        (
            '<!DOCTYPE topology [<!ENTITY a "b">]><topology><object type="&a;"/></topology>',
            "t:1: an entity declaration",
        ),
    ],
)
def test_other_documents_are_refused_with_their_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_lstopo_xml(text, file="t")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("text", ["", "<system version='1'/>", "<topology>\n<node/></topology>"])
def test_other_files_are_not_claimed(text: str) -> None:
    assert not recognise(text)
