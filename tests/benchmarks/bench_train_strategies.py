"""Every strategy's step: measured beside predicted, explicit beside torch's own, calls beside a sweep's.

    python tests/benchmarks/bench_train_strategies.py --ranks 2 --fabric h200-2 [--out FOLDER]
        [--layers 8 --hidden 2048 --vocab 32000 --sequence 2048 --batch 8] [--only dp tp "pp 1f1b"]

Each variant is a run of `clusterlab train`, one after the other, its step predicted (--fabric, --compute)
before its first; the median over all steps but the first five counts. Forms that are compared run in turn,
--turns times (A B A B), and the better median of each counts: what the machine does meanwhile hits both.
Then `clusterlab bench` measures each kind of call alone, eagerly, at its size. FOLDER gets steps.csv,
calls.csv and the run directories, as they are made.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.records.lines import read_lines
from clusterlab.records.store import read_records

WARM = 5
"""Steps that are not counted: allocation, cuBLAS's choices, connections."""

VARIANTS: dict[str, tuple[str, ...]] = {
    "dp": ("dp",),
    "dp not overlapped": ("dp", "--no-overlap"),
    "dp torch's DDP": ("dp", "--library"),
    "dp zero2": ("dp", "--data-parallel", "zero2"),
    "dp fsdp": ("dp", "--data-parallel", "fsdp"),
    "dp torch's FSDP2": ("dp", "--data-parallel", "fsdp", "--library"),
    "tp": ("tp",),
    "tp torch's DTensor": ("tp", "--library"),
    "sp": ("sp",),
    "sp torch's DTensor": ("sp", "--library"),
    "sp ulysses": ("sp", "--sequence-parallel", "ulysses"),
    "pp 1f1b": ("pp",),
    "pp gpipe": ("pp", "--schedule", "gpipe"),
    "pp zero_bubble": ("pp", "--schedule", "zero_bubble"),
    "pp torch's 1f1b": ("pp", "--library"),
    "ep": ("ep",),
}

AGAINST = (
    ("dp", "dp torch's DDP"),
    ("dp", "dp not overlapped"),
    ("dp fsdp", "dp torch's FSDP2"),
    ("tp", "tp torch's DTensor"),
    ("sp", "sp torch's DTensor"),
    ("pp 1f1b", "pp torch's 1f1b"),
)


@dataclass(frozen=True, slots=True)
class Stepped:
    """One run's step in µs: medians over its counted steps; exposed is all axes' together."""

    variant: str
    turn: int
    step_us: float
    predicted_us: float | None
    forward_us: float
    backward_us: float
    optimizer_us: float
    exposed_us: float
    bubble_us: float
    other_us: float
    memory_bytes: int
    run: str


def trained(options: argparse.Namespace, variant: str, turn: int) -> Stepped | None:
    """One run of ``variant``; None where it failed, which is printed."""
    name = f"{variant.replace(' ', '-').replace(chr(39), '')}-{turn}"
    words = [sys.executable, "-m", "clusterlab", "train", *VARIANTS[variant]]
    words += ["-g", str(options.ranks), "--steps", str(options.steps), "--json", "--name", name]
    words += ["--checkpoint-every", "0", "--lr", "0.001", "--bucket", options.bucket]
    words += ["--fabric", options.fabric, "--compute", options.compute] if options.fabric else []
    for size in ("layers", "hidden", "heads", "vocab", "sequence", "batch"):
        words += [f"--{size}", str(getattr(options, size))]
    words += ["-d", options.dtype] if options.dtype else []
    # Balanced: every all-to-all then has one size, which can be measured alone.
    moe = ["--experts", str(2 * options.ranks), "--workload", "balanced"]
    words += moe if variant == "ep" else []
    began = time.monotonic()
    if run(words, options.out, options.limit) is None:
        return None
    (folder,) = Path(options.out).glob(f"*Z-{name}-??????")
    steps = read_lines(folder).steps[WARM:]

    def middle(part: str) -> float:
        return float(statistics.median(getattr(step, f"{part}_us") for step in steps))

    found = Stepped(
        variant,
        turn,
        middle("step"),
        steps[0].predicted_us,
        middle("forward"),
        middle("backward"),
        middle("optimizer"),
        statistics.median(sum(step.exposed_us.values()) for step in steps),
        middle("bubble"),
        middle("other"),
        max(step.memory_bytes for step in steps),
        folder.name,
    )
    print(f"{line(found)}   ({time.monotonic() - began:.0f} s)", flush=True)
    return found


def run(words: Sequence[str], out: str, limit_s: float) -> str | None:
    """The command's standard output; None, with its errors printed, where it failed."""
    environment = {**os.environ, "CLUSTERLAB_RUNS": out}
    try:
        done = subprocess.run(
            words, check=False, env=environment, capture_output=True, text=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        print(f"{' '.join(words)}: over {limit_s:g} s", flush=True)
        return None
    if done.returncode:
        print(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-3000:]}", flush=True)
        return None
    return done.stdout


def line(one: Stepped) -> str:
    """For the terminal, in ms."""
    beside = ""
    if one.predicted_us:
        error = 100 * (one.predicted_us / one.step_us - 1)
        beside = f"predicted {one.predicted_us / 1e3:7.2f} ({error:+5.1f} %)"
    return (
        f"{one.variant:20} step {one.step_us / 1e3:7.2f} ms  {beside}  forward {one.forward_us / 1e3:6.2f}"
        f"  backward {one.backward_us / 1e3:6.2f}  exposed {one.exposed_us / 1e3:6.2f}"
        f"  bubble {one.bubble_us / 1e3:6.2f}  optimizer {one.optimizer_us / 1e3:5.2f}"
        f"  other {one.other_us / 1e3:5.2f}"
    )


def calls_of(options: argparse.Namespace, runs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Every kind of call of ``runs``, its busbw in training and alone at the same size."""
    kinds: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for name in runs:
        data = json.loads((Path(options.out) / name / "collectives.json").read_text())
        for one in data["collectives"]:
            op = {"recv": "send_recv", "send": "send_recv"}.get(one["op"], one["op"])
            if one["size_bytes"] >= options.least_bytes:
                kinds.setdefault((op, one["size_bytes"], one["dtype"]), []).append(
                    {"run": name, **one}
                )
    for (op, size, dtype), found in kinds.items():
        alone = f"alone-{op}-{size}-{dtype}"
        words = [sys.executable, "-m", "clusterlab", "bench", op, "-g", str(options.ranks)]
        words += ["-b", str(size), "-e", str(size), "-d", dtype, "--place", "out", "-c", "0"]
        words += ["--fabric", options.fabric] if options.fabric else []
        words += ["--json", "--name", alone]
        if run(words, options.out, options.limit) is None:
            continue
        (folder,) = Path(options.out).glob(f"*Z-{alone}-??????")
        row = read_records(folder).rows[0]
        for one in found:
            yield {
                "run": one["run"],
                **{k: one[k] for k in ("op", "axis", "phase", "size_bytes", "dtype", "count")},
                "training_us": one["time_us"],
                "training_busbw": one["busbw_GBps"],
                "at_most": one["at_most"],
                "exposed_us": one["exposed_us"],
                "hidden_us": one["hidden_us"],
                "predicted_us": one["predicted_us"],
                "alone_us": row.time_us_loop,
                "alone_busbw": row.busbw_GBps,
            }


def told(call: dict[str, Any]) -> str:
    """A call in training and alone, for the terminal."""
    ratio = call["training_busbw"] / call["alone_busbw"]
    both = call["hidden_us"] + call["exposed_us"]
    return (
        f"{call['run'][17:-7]:24} {call['op']:14} {call['axis']:4} {call['phase']:9} "
        f"{call['size_bytes']:>11} B x {call['count']:5.1f}: {call['training_busbw']:6.1f} GB/s in training, "
        f"{call['alone_busbw']:6.1f} alone ({ratio:.2f}{', at least' if call['at_most'] else ''}), "
        f"{call['hidden_us']:.0f} of {both:.0f} µs hidden"
    )


def main() -> None:
    """All variants, then their calls alone, then who is faster."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--fabric", help="design to predict on")
    parser.add_argument("--compute", default="probe")
    for name, size in (("layers", 8), ("hidden", 2048), ("heads", 16), ("vocab", 32000)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--bucket", default="25M")
    parser.add_argument("--turns", type=int, default=2, help="of forms that are compared")
    parser.add_argument("--dtype")
    parser.add_argument("--least-bytes", type=int, default=1 << 20, help="of calls looked at alone")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one run")
    parser.add_argument(
        "--only", nargs="+", choices=VARIANTS, metavar="VARIANT", help=", ".join(VARIANTS)
    )
    parser.add_argument("--no-alone", action="store_true", help="leave the calls alone out")
    parser.add_argument("--out", default="strategies")
    options = parser.parse_args()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    names = options.only or list(VARIANTS)
    again = [v for v in names if any(v in pair and set(pair) <= set(names) for pair in AGAINST)]
    turns = [names] + [again] * (options.turns - 1)
    found: list[Stepped] = []
    with (folder / "steps.csv").open("w", newline="", buffering=1) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Stepped))
        for turn, variants in enumerate(turns, start=1):
            for variant in variants:
                one = trained(options, variant, turn)
                if one is not None:
                    found.append(one)
                    writer.writerow(astuple(one))
    best: dict[str, float] = {}
    for one in found:
        best[one.variant] = min(one.step_us, best.get(one.variant, float("inf")))
    for ours, other in AGAINST:
        if ours in best and other in best:
            print(f"{ours} over {other}: {best[ours] / best[other]:.3f}", flush=True)
    if options.no_alone or not found:
        return
    with (folder / "calls.csv").open("w", newline="", buffering=1) as file:
        table: Any = None
        for call in calls_of(options, [one.run for one in found if one.turn == 1]):
            if table is None:
                table = csv.DictWriter(file, call, lineterminator="\n")
                table.writeheader()
            table.writerow(call)
            print(told(call), flush=True)


if __name__ == "__main__":
    main()
