"""``clusterlab p2p``: the ways between this machine's GPUs, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.core.p2p import P2pReport

_EXAMPLE = """Examples:

  clusterlab p2p                                  all pairs of visible GPUs; a minute on two

  clusterlab p2p --pairs 0-1,0-4 -e 1G --json > p2p.json

  NCCL_P2P_DISABLE=1 clusterlab p2p --no-kernel   which path NCCL takes then

Exit codes: 0 measured, 1 wrong data, 2 usage or no GPU, 4 a rank of NCCL died or a deadline passed.
"""


def p2p(
    begin: Annotated[
        str, typer.Option("-b", "--minbytes", help="Smallest copy: 8, 4K, 1.5M, 1G.")
    ] = "64K",
    end: Annotated[str, typer.Option("-e", "--maxbytes", help="Largest copy.")] = "256M",
    factor: Annotated[
        float, typer.Option("-f", "--stepfactor", help="Multiply sizes by this.")
    ] = 4.0,
    batches: Annotated[
        int, typer.Option("-n", "--batches", min=1, max=10_000, help="Timed batches per point.")
    ] = 11,
    pairs: Annotated[
        str, typer.Option("--pairs", help="GPUs as this process counts them: 0-1,2-3, or all.")
    ] = "all",
    kernel: Annotated[
        bool, typer.Option("--kernel/--no-kernel", help="Loads and stores by a Triton kernel.")
    ] = True,
    sms: Annotated[
        str, typer.Option("--sms", help="Numbers of SMs for the kernel; all is always in.")
    ] = "1,2,4,8,16,32,64",
    access: Annotated[
        str, typer.Option("--access", help="Bytes per access for the kernel: of 1,2,4,8,16.")
    ] = "4,8,16",
    kernel_size: Annotated[
        str, typer.Option("--kernel-size", help="Bytes that the kernel copies.")
    ] = "128M",
    nccl: Annotated[
        bool, typer.Option("--nccl/--no-nccl", help="Let NCCL connect all GPUs and read its log.")
    ] = True,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            envvar="CLUSTERLAB_FABRIC",
            help="Link figures from this design instead of what this machine says.",
        ),
    ] = None,
    deadline_s: Annotated[
        float, typer.Option("--deadline", "-T", min=1, help="Seconds one point may take.")
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    corrupt: Annotated[
        int | None,
        typer.Option("--corrupt", min=0, help="Spoil this byte, to see the check catch it."),
    ] = None,
) -> int:
    """Measure peer access, copies between GPUs and with the host, a kernel's loads and stores against the
    number of SMs, and the path NCCL takes between each two GPUs; the links' own figures beside them.
    """
    from clusterlab.bench.p2p.plan import ACCESS_BYTES
    from clusterlab.core.sizes import parse_size, size_series
    from clusterlab.runs.probing.p2p import KERNEL_MULTIPLE, P2pOptions, run_p2p

    smallest = parse_size(begin, where="-b")
    sizes = size_series(max(1, smallest), parse_size(end, where="-e"), factor=factor)
    options = P2pOptions(
        sizes_bytes=tuple(sizes),
        pairs=pairs,
        batches=batches,
        kernel=kernel,
        programs=_numbers(sms, "--sms", range(1, 1 << 16)),
        access_bytes=_numbers(access, "--access", ACCESS_BYTES),
        kernel_bytes=_kernel_bytes(kernel_size, KERNEL_MULTIPLE),
        nccl=nccl,
        fabric=fabric,
        deadline_s=deadline_s,
        corrupt=corrupt,
    )

    def show(report: P2pReport) -> None:
        from clusterlab.report.console.p2p import report_text

        typer.echo(json_text(report.to_json()) if as_json else report_text(report))

    return run_p2p(options, show)


def _numbers(text: str, where: str, allowed: range | tuple[int, ...]) -> tuple[int, ...]:
    """Whole numbers with commas between them. Raises UsageError."""
    from clusterlab.core.errors import UsageError

    found = []
    for part in (part.strip() for part in text.split(",")):
        number = int(part) if part.isascii() and part.isdecimal() and len(part) < 8 else -1
        if number not in allowed:
            known = (
                f"whole numbers from {allowed.start} to {allowed.stop - 1}"
                if isinstance(allowed, range)
                else "of " + ", ".join(map(str, allowed))
            )
            raise UsageError(f"{part!r}", where=where, expected=f"{known}, with commas between")
        found.append(number)
    return tuple(dict.fromkeys(found))


def _kernel_bytes(text: str, multiple: int) -> int:
    from clusterlab.core.errors import UsageError
    from clusterlab.core.sizes import parse_size

    size = parse_size(text, where="--kernel-size")
    if size == 0 or size % multiple:
        raise UsageError(
            f"{size} bytes", where="--kernel-size", expected=f"a multiple of {multiple}"
        )
    return size


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("p2p", epilog=_EXAMPLE)(p2p)
