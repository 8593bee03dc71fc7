from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.ibstat import parse_ibstat, recognise
from tests.support import shared_dir

IBSTAT = """\
$ ibstat
CA 'mlx4_0'
\tCA type: MT4099
\tNumber of ports: 2
\tNode GUID: 0x0002c90300a10000
\tPort 1:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 40 (FDR10)
\t\tPort GUID: 0x2c90300a10001
\t\tLink layer: InfiniBand
\tPort 2:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 10
\t\tLink layer: InfiniBand
"""

IBSTATUS = """\
Infiniband device 'mlx5_bond_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:0000:0000:0000:0002
\tbase lid:\t 0x0
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 100 Gb/sec (4X EDR)
\tlink_layer:\t Ethernet
"""


def test_ibstat_gives_devices_with_their_ports() -> None:
    (device,) = parse_ibstat(IBSTAT, file="x")
    assert (device.name, device.model, device.guid) == ("mlx4_0", "MT4099", "0002c90300a10000")
    first, second = device.ports
    assert (first.state, first.physical, first.rate_Gbps) == ("Initializing", "LinkUp", 40.0)
    assert first.rate is not None
    assert first.rate.name == "4xFDR10"
    assert first.guid == "0002c90300a10001"
    assert (second.state, second.rate_Gbps, second.active) == ("Down", 10.0, False)


def test_ibstatus_words_states_with_numbers() -> None:
    (device,) = parse_ibstat(IBSTATUS, file="x")
    (port,) = device.ports
    assert (port.state, port.physical, port.link_layer) == ("Active", "LinkUp", "Ethernet")
    assert port.active
    assert port.rate_Gbps == 100.0


def test_a_device_listed_twice_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="x:18: mlx4_0 is listed again"):
        parse_ibstat(IBSTAT + IBSTAT, file="x")
    with pytest.raises(UsageError, match="x:8: port 1 of mlx5_bond_0 is listed again"):
        parse_ibstat(IBSTATUS + IBSTATUS, file="x")


@pytest.mark.parametrize("text", ["", "CA mlx5_0\n", "State: Active\n"])
def test_text_without_devices_is_refused(text: str) -> None:
    assert not recognise(text)
    with pytest.raises(UsageError, match="x:1: no RDMA device"):
        parse_ibstat(text, file="x")


def test_no_file_of_another_kind_is_claimed() -> None:
    others = [
        path
        for path in (shared_dir() / "samples").rglob("*")
        if path.is_file() and path.parent.name != "ibstat" and path.suffix != ".src"
    ]
    assert others
    assert [p.name for p in others if recognise(p.read_text(errors="replace"))] == []
