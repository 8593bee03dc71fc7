"""gres.conf and the settings of slurm.conf and cgroup.conf."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.slurm_files import GresGpu, gres_gpus, setting

GRES = """\
# all nodes
AutoDetect=off
name=gpu type=h100 file=/dev/nvidia[0-1] cores=0-7,16-23 Links=-1,18
NodeName=n[2-3] Name=gpu File=/dev/nvidia2,/dev/nvidia3
Name=nic File=/dev/mlx0
Name=gpu Count=4  # AutoDetect fills it in
"""


def test_the_gpus_of_a_node_in_order() -> None:
    common = [GresGpu(f"/dev/nvidia{i}", "h100", "0-7,16-23") for i in (0, 1)]
    assert list(gres_gpus(GRES, "n0")) == common
    assert list(gres_gpus(GRES, "n3")) == [
        *common, GresGpu("/dev/nvidia2"), GresGpu("/dev/nvidia3")
    ]  # fmt: skip


def test_lines_may_be_continued() -> None:
    assert gres_gpus("Name=gpu \\\n File=/dev/nvidia0", "n0") == (GresGpu("/dev/nvidia0"),)


@pytest.mark.parametrize(
    "files", ["/dev/nvidia[0-", "/dev/nvidia[0-999999999]", "/dev/nvidia[0-9999]"]
)
def test_files_that_cannot_be_are_bad_input(files: str) -> None:
    with pytest.raises(UsageError, match=r"gres\.conf"):
        gres_gpus(f"Name=gpu File={files}", "n0")


def test_the_last_setting_counts_and_comments_do_not() -> None:
    text = "TaskPlugin=task/none\ntaskplugin = task/cgroup # ConstrainDevices=yes\n"
    assert setting(text, "TaskPlugin") == "task/cgroup"
    assert setting(text, "ConstrainDevices") is None


@given(st.text(max_size=200))
def test_any_text_is_gpus_or_bad_input(text: str) -> None:
    with suppress(UsageError):
        gres_gpus(f"Name=gpu File={text}\n{text}", "n0")
