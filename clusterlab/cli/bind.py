"""``clusterlab bind``: what a mask or a job's options give each task, before anything is submitted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.bind_explain import EXAMPLE as _EXPLAIN_EXAMPLE
from clusterlab.cli.bind_explain import explain_command
from clusterlab.core.errors import UsageError
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.binding.masks import MaskResult

app = typer.Typer(
    help="Binding: what a mask or a job's options give each task, before anything runs.",
    no_args_is_help=True,
)

_ORDINAL = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")  # what strtol takes of an entry

_MASK_EXAMPLE = """\b
Examples:
  clusterlab bind mask --uuid GPU-8a7b0011 --uuid GPU-1f020022 -- 1,0
  clusterlab bind mask --uuid GPU-8a7b0011 --json -- -1

A mask stands after --, so that one beginning with a dash is no option.

Exit codes: 0 also where CUDA shows nothing, 2 input that cannot be read.
"""


@app.command("mask", epilog=_MASK_EXAMPLE)
def mask(
    uuid: Annotated[
        list[str], typer.Option(help="A GPU, in the order CUDA counts them unmasked (repeatable).")
    ],
    mask: Annotated[
        str | None,
        typer.Argument(metavar="MASK", help="CUDA_VISIBLE_DEVICES, after --.", show_default=False),
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="No mask at all.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a sentence.")] = False,
) -> None:
    """Say which devices CUDA shows a process under a mask, as NVIDIA's driver reads it."""
    from clusterlab.binding.masks import evaluate_cuda_mask

    if unset == (mask is not None):
        raise UsageError(
            "a mask and --unset" if unset else "no mask",
            where="bind mask",
            expected="either a mask after --, or --unset",
        )
    found = evaluate_cuda_mask(mask, uuid)
    typer.echo(json_text(found.to_json()) if as_json else _mask_text(found, mask, uuid))


def _mask_text(found: MaskResult, mask: str | None, uuids: list[str]) -> str:
    lines = [f"{position}  {uuids[device]}" for position, device in enumerate(found.devices)]
    if found.error:
        lines = [f"no device: cuInit fails with {found.error.code} {found.error.name}"]
        return "\n".join(lines)
    if found.ignored:
        rest = ",".join(found.ignored)
        lines.append(f"not read: {rest!r}, whose first entry names no device")
    kept = (mask or "").split(",")[: len(found.devices)]
    for entry in kept:
        number = _ORDINAL.match(entry)
        if number and number.end() < len(entry):
            lines.append(
                f"not read: {entry[number.end() :]!r} of {entry!r}: of an entry that begins with digits, "
                "only these count"
            )
    return "\n".join(lines)


app.command("explain", epilog=_EXPLAIN_EXAMPLE)(explain_command)
