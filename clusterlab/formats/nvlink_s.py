"""``nvidia-smi nvlink -s``: the NVLinks of each GPU and their rate; not where they lead."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.formats.smi_text import RECOGNISED_CHARS, check_count, clean_lines

MOST_LINKS = 64
_GPU = re.compile(r"GPU (\d{1,4}):\s*(.*?)\s*(?:\(UUID:\s*([^)\s]*)\s*\)?)?\s*")
_LINK = re.compile(r"Link\s+(\d{1,4}):\s*(.*?)\s*")
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*GB/s")
_INACTIVE = re.compile(r"<?inactive>?", re.IGNORECASE)
_ALL_INACTIVE = re.compile(r".*all links are inactive.*", re.IGNORECASE)
_ELISION = re.compile(r"\[?\s*(?:\.\.\.|…)\s*\]?")


@dataclass(slots=True)
class NvlinkGpu:
    """One GPU. ``links``: number to GB/s per direction as printed; None: inactive.

    ``elided``: a person cut lines out (``[...]``). ``unreadable``: lines of links that say neither.
    """

    index: int
    model: str
    uuid: str | None
    line: int
    links: dict[int, float | None] = field(default_factory=dict)
    elided: bool = False
    all_inactive: bool = False
    unreadable: list[int] = field(default_factory=list)


def recognise(text: str) -> bool:
    """True where a ``GPU 0: …`` line is followed by ``Link 0:`` with a rate or <inactive>."""
    under_gpu = False
    for _, line in clean_lines(text[:RECOGNISED_CHARS], file=""):
        if _GPU.fullmatch(line.rstrip()):
            under_gpu = True
        elif under_gpu and (link := _LINK.fullmatch(line)):
            return bool(_RATE.fullmatch(link[2]) or _INACTIVE.fullmatch(link[2]))
        elif under_gpu and _ALL_INACTIVE.fullmatch(line):
            return True
        elif line.strip() and not _ELISION.fullmatch(line.strip()):
            under_gpu = False
    return False


def parse_nvlink_s(text: str, *, file: str) -> list[NvlinkGpu]:
    """The GPUs in ``text``. A GPU printed again with the same UUID is taken once.

    Raises UsageError, naming the line, for no GPU, or one number for two GPUs (two hosts in one file).
    """
    gpus: dict[int, NvlinkGpu] = {}
    current: NvlinkGpu | None = None
    for number, line in clean_lines(text, file=file):
        gpu, link = _GPU.fullmatch(line), _LINK.fullmatch(line)
        if gpu:
            found = NvlinkGpu(int(gpu[1]), gpu[2], gpu[3] or None, number)
            current = gpus.setdefault(found.index, found)
            _same_gpu(current, found, file)
            check_count(len(gpus), where=f"{file}:{number}")
        elif link and current is None:
            raise UsageError(
                "a link before any GPU",
                where=f"{file}:{number}",
                expected="a line such as 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)' above it",
            )
        elif link and current is not None:
            _add_link(current, int(link[1]), link[2], number)
        elif current is not None and _ALL_INACTIVE.fullmatch(line):
            current.all_inactive = True
        elif current is not None and _ELISION.fullmatch(line.strip()):
            current.elided = True
    if not gpus:
        raise UsageError(
            "no GPU of nvidia-smi nvlink -s",
            where=f"{file}:1",
            expected="'GPU 0: …' with lines such as 'Link 0: 26.562 GB/s'",
        )
    return list(gpus.values())


def _same_gpu(first: NvlinkGpu, again: NvlinkGpu, file: str) -> None:
    if first.uuid != again.uuid or first.model != again.model:
        raise UsageError(
            f"GPU {again.index} a second time, and another one",
            where=f"{file}:{again.line}",
            expected="the output of one host",
            fix="give one file for each host",
        )


def _add_link(gpu: NvlinkGpu, link: int, said: str, number: int) -> None:
    rate = _RATE.fullmatch(said)
    GBps = float(rate[1]) if rate else math.nan
    if link < MOST_LINKS and GBps > 0:
        gpu.links[link] = GBps
    elif link < MOST_LINKS and (GBps == 0 or _INACTIVE.fullmatch(said)):
        gpu.links[link] = None
    else:
        gpu.unreadable.append(number)
