from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.lab.layout import Layout, check_base, default_base, find_layout


def test_labs_lie_where_the_environment_says(tmp_path: Path) -> None:
    uid = tmp_path.stat().st_uid
    runtime = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert default_base({"CLUSTERLAB_LABS": "/data/labs", **runtime}, uid) == Path("/data/labs")
    assert default_base(runtime, uid) == tmp_path / "clusterlab-lab"
    # sudo keeps the other user's XDG_RUNTIME_DIR.
    assert default_base(runtime, uid + 1) == Path(f"/tmp/clusterlab-lab-{uid + 1}")
    assert default_base({}, 7) == Path("/tmp/clusterlab-lab-7")


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "-x", "a" * 21, "a/b"])
def test_a_name_that_is_no_directory_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lab name"):
        find_layout(name, tmp_path)


def test_a_path_too_long_for_unix_sockets_is_refused_with_the_way_out() -> None:
    check_base(Layout(Path("/x/" + "d" * 30)), flat=True)
    with pytest.raises(UsageError, match="CLUSTERLAB_LABS"):
        check_base(Layout(Path("/x/" + "d" * 50)), flat=True)
    check_base(Layout(Path("/x/" + "d" * 50)), flat=False)
    with pytest.raises(UsageError, match="sockets of Slurm and PMIx"):
        check_base(Layout(Path("/x/" + "d" * 70)), flat=False)


def test_a_path_that_slurm_conf_cannot_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="letters, digits"):
        check_base(Layout(Path("/x/with space")), flat=False)


def test_a_run_directory_of_someone_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    short = Layout(tmp_path / "link")
    with pytest.raises(UsageError, match=r"not a directory of yours|characters"):
        check_base(short, flat=False)
