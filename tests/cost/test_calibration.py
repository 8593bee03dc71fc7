import dataclasses
from pathlib import Path

import pytest

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.cost.calibration import check_fits, load_calibration, save_calibration
from tests.cost.examples import calibration


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cal.yaml"
    save_calibration(calibration(), path)
    assert load_calibration(path) == dataclasses.replace(calibration(), source=str(path))
    assert [p.name for p in path.parent.iterdir()] == ["cal.yaml"]  # no part file is left


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format: 1", "format: 2", "cal.yaml:1: format: format 2; expected 1; calibrate again"),
        ("format: 1\n", "", "cal.yaml:1: format: format None"),
        ("backend:", "backent:", "unknown key 'backent'"),
        ("world_sizes:\n- 1\n- 1024", "world_sizes: [4]", "world_sizes: not a range"),
        ("world_sizes:\n- 1\n- 1024", "world_sizes: [4, 2]", "world_sizes: 4 to 2"),
        ("value: 220.0", "value: much", "'much' is not a number"),
        ("value: 220.0", "value: .nan", "nan is not finite"),
        ("value: 220.0", "value: unknown", "constants[7].value: unknown"),
        ("unit: ''", "units: ''", "unknown key 'units'"),
        ("residuals:", "residuals: 5\nignored:", "unknown key 'ignored'"),
    ],
)
def test_a_damaged_file_is_refused_by_field(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "cal.yaml"
    save_calibration(calibration(), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_calibration(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cal.yaml"
    save_calibration(calibration(), path)
    text = path.read_text()
    for cut in range(0, len(text), 37):
        path.write_text(text[:cut])
        try:
            load_calibration(path)
        except UsageError as error:
            assert str(path) in str(error)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.yaml: cannot be read: No such file"):
        load_calibration(tmp_path / "no.yaml")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cal\.yaml: cannot be written"):
        save_calibration(calibration(), tmp_path / "file" / "cal.yaml")


def test_constants_of_another_system_or_backend_are_refused() -> None:
    mine = calibration()
    check_fits(mine, backend="gloo", fingerprint=mine.fingerprint)
    with pytest.raises(UsageError, match="made with backend gloo; expected nccl; calibrate again"):
        check_fits(mine, backend="nccl")
    with pytest.raises(UsageError, match=r"made on another system: some CPU, 2 cores.*that one"):
        check_fits(mine, backend="gloo", fingerprint="0", system="that one")


def test_an_unknown_constant_is_named() -> None:
    with pytest.raises(UsageError, match=r"unknown constant 'overlop'.*did you mean 'overlap'"):
        calibration().value("overlop")
    assert not calibration().has("overlop")
