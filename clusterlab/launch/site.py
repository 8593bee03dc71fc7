"""site.toml: what is particular to one cluster's Slurm, kept apart from the job files."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import reject_unknown_keys

GRES_STYLES = ("gpus-per-node", "gres")
CONTAINER_RUNTIMES = ("none", "pyxis", "apptainer")
MPI_PLUGINS = ("pmix", "pmix_v3", "pmix_v4", "pmix_v5", "pmi2", "none")


@dataclass(frozen=True, slots=True)
class Site:
    """Defaults of one cluster. Empty text and 0 mean: leave the option out.

    ``gres_style``: whether GPUs are asked for by ``--gpus-per-node=N`` or ``--gres=gpu:N``.
    ``modules`` are loaded by the batch script. ``container_image`` is what pyxis or apptainer runs,
    with ``container_mounts`` (``host:inside`` each) visible in it; ``container_program`` is where
    clusterlab lies inside.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    nodes: int = 2
    gpus_per_node: int = 8
    gres_style: str = "gpus-per-node"
    mpi: str = "pmix"
    modules: tuple[str, ...] = ()
    container_runtime: str = "none"
    container_image: str = ""
    container_mounts: tuple[str, ...] = ()
    container_program: str = "clusterlab"


def site_from_data(data: dict[str, Any], *, where: str) -> Site:
    """A Site from parsed TOML. Raises UsageError naming ``where`` and the key at fault."""
    reject_unknown_keys(data, [f.name for f in fields(Site)], where=where)
    values: dict[str, Any] = {}
    for field in fields(Site):
        if field.name not in data:
            continue
        value, place = data[field.name], f"{where}: {field.name}"
        if isinstance(field.default, tuple):
            if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
                raise UsageError(f"{value!r}", where=place, expected="a list of strings")
            value = tuple(value)
        elif type(value) is not type(field.default):
            raise UsageError(
                f"{value!r}", where=place, expected=f"a {type(field.default).__name__}"
            )
        values[field.name] = value
    site = Site(**values)
    _check(site, where)
    return site


def _check(site: Site, where: str) -> None:
    for name, known in (
        ("gres_style", GRES_STYLES),
        ("container_runtime", CONTAINER_RUNTIMES),
        ("mpi", MPI_PLUGINS),
    ):
        if getattr(site, name) not in known:
            raise UsageError(
                f"{getattr(site, name)!r}",
                where=f"{where}: {name}",
                expected="one of " + ", ".join(known),
            )
    for name, least, most in (("nodes", 1, 100_000), ("gpus_per_node", 0, 1024)):
        if not least <= getattr(site, name) <= most:
            raise UsageError(
                f"{getattr(site, name)}",
                where=f"{where}: {name}",
                expected=f"at least {least}, at most {most}",
            )
    if site.container_runtime != "none" and not site.container_image:
        raise UsageError(
            f"{site.container_runtime} without an image",
            where=f"{where}: container_image",
            expected="an image reference or a .sif/.sqsh file",
        )
    for field in fields(site):
        value = getattr(site, field.name)
        for text in value if isinstance(value, tuple) else (str(value),):
            if not text.isprintable():
                raise UsageError(
                    f"control characters in {text!r}",
                    where=f"{where}: {field.name}",
                    expected="printable text on one line",
                )


def load_site(path: Path) -> Site:
    """Read a site.toml. Raises UsageError naming file, line or key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path)) from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"not TOML: {error}", where=str(path)) from None
    return site_from_data(data, where=str(path))
