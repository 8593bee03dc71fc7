from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.lab import doctor
from clusterlab.lab.doctor import MISSING, OK, WARNING, Check, examine, require
from tests.lab.machines import SMALL


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has only the programs put into this folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("clusterlab.lab.commands.DAEMON_PATH", str(folder))
    return folder


def install(folder: Path, *names: str, says: str = "slurm-wlm 22.05.8", status: int = 0) -> None:
    for name in names:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
        program.chmod(0o755)


SLURM = ("slurmctld", "slurmd", "slurmstepd", "srun", "sbatch", "sinfo", "scontrol", "munged")


def check(checks: list[Check], name: str) -> Check:
    return next(found for found in checks if found.name == name)


def test_a_bare_debian_is_told_one_command_for_all_packages(programs: Path) -> None:
    install(programs, "apt-get")
    found = check(examine(SMALL, flat=True), "Slurm")
    assert found.status == MISSING
    assert found.fix == (
        "apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge "
        "slurm-wlm-basic-plugins libpmix2"
    )


def test_elsewhere_the_packages_are_named_without_apt(programs: Path) -> None:
    found = check(examine(SMALL, flat=True), "Slurm")
    assert found.fix.startswith("install what Debian calls slurmctld")


def test_only_what_is_missing_is_installed(programs: Path) -> None:
    install(programs, *(set(SLURM) - {"munged"}), "apt-get")
    found = check(examine(SMALL, flat=True), "Slurm")
    assert found.detail == "no program munged"
    assert " munge " in found.fix
    assert "slurmctld" not in found.fix


def test_unpacked_packages_lack_only_their_links(programs: Path) -> None:
    install(programs, *(set(SLURM) - {"slurmd", "slurmstepd"}), "slurmd-wlm", "slurmstepd-wlm")
    found = check(examine(SMALL, flat=True), "Slurm")
    assert found.fix == (
        f"ln -s slurmd-wlm {programs}/slurmd; ln -s slurmstepd-wlm {programs}/slurmstepd"
    )


def test_a_program_that_cannot_load_its_libraries_says_which(programs: Path) -> None:
    install(programs, *SLURM)
    install(programs, "slurmd", says="libdbus-1.so.3: cannot open shared object", status=127)
    found = check(examine(SMALL, flat=True), "Slurm")
    assert found.status == MISSING
    assert "libdbus-1.so.3" in found.detail


@pytest.fixture
def pmix(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Check]:
    """What doctor says of a PMIx library: ``pmix(version, mend=…, flat=…)``, Slurm's plugin is v4."""
    install(programs, *SLURM)
    monkeypatch.setattr(doctor, "_plugins", lambda pattern: [Path("/x/mpi_pmix_v4.so")])

    def said(version: str, *, mend: bool, flat: bool, loads: bool = True) -> Check:
        monkeypatch.setattr(doctor, "_output", lambda command: (version, loads))
        machine = replace(SMALL, pmix_lib_to_mend=Path("/usr/lib/x/pmix2/lib") if mend else None)
        return doctor._pmix(machine, flat=flat)[1]

    return said


def test_a_missing_pmix_link_stops_only_a_flat_lab(pmix: Callable[..., Check]) -> None:
    flat = pmix("4.2.2", mend=True, flat=True)
    assert flat.status == MISSING
    assert "would hang" in flat.detail
    assert flat.fix == "ln -sfn libpmix.so.2 /usr/lib/x/pmix2/lib/libpmix.so"
    assert pmix("4.2.2", mend=True, flat=False).status == OK
    assert pmix("4.2.2", mend=False, flat=True).status == OK


@pytest.mark.parametrize("flat", [True, False])
def test_a_pmix_of_another_major_version_is_found_before_slurmd_hangs_on_it(
    pmix: Callable[..., Check], flat: bool
) -> None:
    found = pmix("5.0.1", mend=False, flat=flat)
    assert found.status == MISSING
    assert "is PMIx 5.0.1, Slurm's plugin is for PMIx 4" in found.detail


def test_a_pmix_library_that_does_not_load_says_why(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_plugins", lambda pattern: [Path("/x/mpi_pmix_v4.so")])
    broken = tmp_path / "libpmix.so"
    broken.write_text("no library")
    monkeypatch.setattr(doctor, "_pmix_path", lambda: str(broken))
    found = doctor._pmix(SMALL, flat=True)[1]
    assert found.status == MISSING
    assert f"cannot be loaded ({broken}: file too short)" in found.detail


def test_without_a_compiler_root_is_warned_and_others_are_stopped(programs: Path) -> None:
    machine = replace(SMALL, compiler=None)
    assert check(examine(machine, flat=False), "C compiler").status == WARNING
    assert check(examine(replace(machine, root=False), flat=True), "C compiler").status == WARNING
    assert check(examine(replace(machine, root=False), flat=False), "C compiler").status == MISSING


def test_refused_namespaces_name_the_switch_and_the_way_around(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs, "ip")
    monkeypatch.setattr(doctor, "probe", lambda *, user: "unshare failed: Operation not permitted")
    as_root = check(examine(SMALL, flat=False), "namespaces")
    assert as_root.status == MISSING
    assert as_root.detail == "unshare failed: Operation not permitted"
    assert "--privileged" in as_root.fix
    assert "clusterlab lab up --flat" in as_root.fix
    as_user = check(examine(replace(SMALL, root=False), flat=False), "user namespaces")
    assert "lab up --flat" in as_user.fix


def test_up_is_refused_with_everything_that_is_missing_at_once(programs: Path) -> None:
    install(programs, "apt-get")
    with pytest.raises(UsageError) as refused:
        require(replace(SMALL, compiler=None, root=False), flat=False)
    said = str(refused.value)
    for part in ("Slurm: no program", "ip: not found", "C compiler:", "apt-get install"):
        assert part in said
    assert refused.value.exit_code == 2


def test_warnings_do_not_refuse(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(programs, *SLURM, "setpriv")
    plugins = {"auth_munge.so": [Path("/x/auth_munge.so")]}
    monkeypatch.setattr(doctor, "_plugins", lambda pattern: plugins.get(pattern, []))
    warnings = require(replace(SMALL, compiler=None), flat=True)
    assert [warning.name for warning in warnings] == ["PMIx plugin", "C compiler"]
