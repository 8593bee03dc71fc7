"""Checksums of what a rank wrote of a checkpoint: torch's reader does not notice changed bits.

    checkpoints/step-00000010/crc-00003.json    file name to CRC-32, of rank 3's files

They come after ``.metadata``: a checkpoint without them is one that nothing is known against.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

_CHUNK = 1 << 20


def keep_checksums(checkpoint: Path, rank: int) -> str:
    """Note those of ``rank``'s files; why not, where it cannot."""
    try:
        found = {path.name: _crc(path) for path in sorted(checkpoint.glob(f"__{rank}_*"))}
        _file(checkpoint, rank).write_text(json.dumps(found) + "\n")
    except OSError as error:
        return f"{_file(checkpoint, rank).name}: {error.strerror} (rank {rank})"
    return ""


def changed(checkpoint: Path, rank: int) -> str:
    """What is wrong with ``rank``'s files; nothing where they are as they were written."""
    file = _file(checkpoint, rank)
    try:
        if not file.exists():
            return ""
        for name, crc in json.loads(file.read_text()).items():
            if _crc(checkpoint / name) != crc:
                return f"{name} is not as it was written: its checksum differs (rank {rank})"
    except OSError as error:
        return f"{Path(str(error.filename)).name}: {error.strerror} (rank {rank})"
    except (ValueError, AttributeError):
        return f"{file.name} holds no checksums (rank {rank})"
    return ""


def _file(checkpoint: Path, rank: int) -> Path:
    return checkpoint / f"crc-{rank:05d}.json"


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc
