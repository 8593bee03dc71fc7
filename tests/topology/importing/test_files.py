"""Files as shells of other systems write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.importing.files import read_files


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_file_in_another_encoding_reads_like_the_plain_one(tmp_path: Path, encoding: str) -> None:
    text = (
        "SwitchName=s0 Nodes=n[1-4]\nSwitchName=s1 Nodes=n[5-8]\nSwitchName=top Switches=s[0-1]\n"
    )
    plain, other = tmp_path / "topology.conf", tmp_path / "other.conf"
    plain.write_text(text)
    other.write_bytes((b"\xfe\xff" if encoding == "utf-16-be" else b"") + text.encode(encoding))
    one, two = read_files([plain]), read_files([other])
    assert one.kind == two.kind
    assert one.fabric.hosts == two.fabric.hosts
    assert one.fabric.links == two.fabric.links


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\x7fELF\0\0\0")
    with pytest.raises(UsageError, match="not text"):
        read_files([file])
