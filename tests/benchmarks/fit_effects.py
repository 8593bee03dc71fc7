"""Fit the cost model's class constants to measured tables, and score them on systems left out.

    python tests/benchmarks/fit_effects.py MEASURED.csv… [--cross-validate [FOLDS]] [--write]

Runs the package's own formula on torch tensors. A constant is its class's geometric deviation from a value
shared by all classes, with a normal prior on both (PRIORS), so that a class seen nowhere has the shared
value. Each system's host adds a latency of its own (at least 0, a prior with a long tail: most add little,
virtual machines tens of µs), which is thrown away:
predictions are for a typical host. Residuals are of log time, weighed by table and system, large ones
linearly.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from clusterlab.cost.calibrated.points import fit_point
from clusterlab.cost.effects import constants as kept
from clusterlab.cost.effects.features import Features
from clusterlab.cost.effects.formula import time_us
from clusterlab.cost.scoring.measured import load_measured
from clusterlab.cost.scoring.scored import request_for

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

# constant: (middle, sigma of the shared value, sigma of a class's deviation); overlaps lie in 1..4.
PRIORS: dict[str, tuple[float, float, float]] = {
    "base_us": (6, 0.4, 0.15), "hop_ll_us": (1.0, 0.3, 0.25), "hop_ll128_us": (1.6, 0.2, 0.15),
    "hop_simple_us": (5, 0.3, 0.3), "start_simple_us": (12, 0.3, 0.25), "rate_simple": (0.95, 0.1, 0.05),
    "rate_ll": (1.0, 0.2, 0.12), "rate_ll128": (0.95, 0.1, 0.1), "ramp_simple_bytes": (1e6, 0.7, 0.3),
    "hop_larger_us": (0.25, 0.5, 0.3), "nvls_start_us": (15, 0.3, 0.2), "nvls_rate": (0.85, 0.1, 0.05),
    "nvls_ramp_bytes": (6e6, 0.7, 0.4), "p2p_simple_us": (6, 0.4, 0.2), "p2p_rate": (0.92, 0.1, 0.05),
    "network_step_us": (4, 0.7, 1.0), "network_rate": (0.98, 0.02, 0.07),
    "network_ramp_bytes": (2e6, 0.7, 0.6), "p2p_network_us": (6, 0.7, 0.5),
    "p2p_network_rate": (0.9, 0.1, 0.05), "hop_larger_bytes": (4096, 0.7, 0), "kappa_ll": (0.8, 0.25, 0),
    "kappa_ll128": (0.8, 0.25, 0), "kappa_simple": (0.6, 0.25, 0), "ramp_ll_bytes": (3e5, 0.7, 0),
    "copy_gathered": (0.5, 0.3, 0), "copy_reduced": (0.35, 0.3, 0), "overlap_simple": (1.5, 0.7, 0),
    "overlap_ll": (1.3, 0.7, 0), "network_overlap_ll": (1.5, 0.7, 0),
    "network_overlap_simple": (1.5, 0.7, 0), "fill": (3, 0.5, 0), "fill_bytes": (1e6, 0.7, 0),
    "tree_rate": (0.92, 0.1, 0), "nvls_tree_start_us": (10, 0.5, 0), "nvls_tree_ramp_bytes": (1.1e7, 0.7, 0),
    "p2p_base": (1.0, 0.3, 0), "p2p_peer_us": (0.2, 0.4, 0),
    "p2p_half_bytes": (8e3, 0.5, 0), "p2p_ramp_bytes": (1e6, 0.7, 0), "host_memory_GBps": (15, 0.5, 0),
}  # fmt: skip
FREER = {("chips", "cdna"): 2.5, ("chips", "pcie"): 2.0}
"""Other hardware or another library: classes may deviate more."""
FAMILIES = {
    "ib": 0, "roce": 0, "gib": 0, "slingshot": 0,
    "efa2": 1, "efa1": 1, "tcpxo": 1,
    "tcpx": 2, "tcp": 2, "staged": 2,
}  # fmt: skip
"""Networks alike: by RDMA, by a cloud's own card, through the host."""
HOST_US = 1.5
FEW = 4
CROWDING_MOST = 4.0
NOISE, LINEAR_FROM, TOP = 0.10, 1.0, 2.0
NOT_FITTED = ("mscclpp",)
"""Rows whose ``algo`` says that another library's kernels ran."""
ALONE = kept.NETWORKS[0]
"""Stands for the network of one node, of which no constant is used."""
FIELDS = [
    f.name for f in fields(Features) if f.name not in ("kind", "protocol", "several_nodes", "sums")
]


def main() -> None:
    """Fit, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--cross-validate", nargs="?", type=int, const=0, metavar="FOLDS",
        help="leave each system out once, alone or with others in so many folds",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help="write the package's constants.yaml")
    options = parser.parse_args()
    rows = [row for file in options.files for row in _rows(file)]
    print(
        f"{len(rows)} rows of {len({r.table for r in rows})} tables"
        f" on {len({r.system for r in rows})} systems"
    )
    found = fit(rows)
    scores = {"fitted": report("fitted", rows, predicted(found, rows))}
    if options.cross_validate is not None:
        times = cross_validated(rows, options.cross_validate)
        scores["left_out"] = report("left out", rows, times)
    if options.write:
        kept.SHIPPED.write_text(_yaml(found, rows, scores), encoding="utf-8")
        print(f"wrote {kept.SHIPPED}")


def _rows(file: Path) -> list[SimpleNamespace]:
    found = []
    for point in load_measured(file):
        seen = fit_point(request_for(point), point.time_us)
        found.append(SimpleNamespace(
            terms=seen.terms, library=seen.library_us, time=point.time_us, table=point.table,
            system=point.system, collective=seen.collective, size=point.size_bytes,
            published=point.published, chip=seen.chip, network=seen.network or ALONE,
            fitted=not any(w in point.algo for w in NOT_FITTED),
        ))  # fmt: skip
    return found


class Layout:
    """Where each constant and deviation stands in the vector of parameters."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, ...], int] = {}
        sigmas = []
        for name, (_, shared, own) in PRIORS.items():
            self._add((name,), shared, sigmas)
            if name in kept.CHIP_CONSTANTS:
                for chip in kept.CHIPS:
                    self._add((name, chip), own * FREER.get(("chips", chip), 1.0), sigmas)
            elif name in kept.NETWORK_CONSTANTS:
                for family in range(3):
                    wide = 2.0 if name == "network_rate" and family == 2 else 0.8
                    self._add((name, "family", str(family)), own * wide, sigmas)
                for network in kept.NETWORKS:
                    self._add((name, network), own * 0.6, sigmas)
        self._add(("crowding",), 5.0, sigmas)
        self.sigmas = torch.tensor(sigmas)

    def _add(self, key: tuple[str, ...], sigma: float, sigmas: list[float]) -> None:
        self.at[key] = len(sigmas)
        sigmas.append(sigma)

    def values(self, v: Any, name: str, chips: Any, networks: Any) -> Any:
        """The constant for rows whose classes are given by index."""
        if name == "crowding":
            return CROWDING_MOST * torch.sigmoid(v[self.at["crowding",]])
        middle = PRIORS[name][0]
        log = v[self.at[name,]]
        if "overlap" in name:
            return 1 + 3 * torch.sigmoid(math.log((middle - 1) / (4 - middle)) + log)
        if name in kept.CHIP_CONSTANTS:
            log = log + torch.stack([v[self.at[name, c]] for c in kept.CHIPS])[chips]
        elif name in kept.NETWORK_CONSTANTS:
            own = [
                v[self.at[name, n]] + v[self.at[name, "family", str(FAMILIES[n])]]
                for n in kept.NETWORKS
            ]
            log = log + torch.stack(own)[networks]
        return middle * torch.exp(log)


LAYOUT = Layout()
NAMES = kept.CHIP_CONSTANTS + kept.NETWORK_CONSTANTS + kept.SHARED_CONSTANTS


def _batches(rows: list[SimpleNamespace]) -> list[SimpleNamespace]:
    """Rows of one shape of formula together, as tensors."""
    groups = defaultdict(list)
    for index, row in enumerate(rows):
        t = row.terms
        groups[t.kind, t.protocol, t.several_nodes, t.sums].append(index)
    made = []
    for (kind, protocol, several, sums), members in groups.items():
        columns = {
            f: torch.tensor([float(getattr(rows[i].terms, f)) for i in members]) for f in FIELDS
        }
        made.append(SimpleNamespace(
            terms=SimpleNamespace(kind=kind, protocol=protocol, several_nodes=several, sums=sums, **columns),
            members=torch.tensor(members),
            chips=torch.tensor([kept.CHIPS.index(rows[i].chip) for i in members]),
            networks=torch.tensor([kept.NETWORKS.index(rows[i].network) for i in members]),
        ))  # fmt: skip
    return made


def _times(v: Any, batches: list[SimpleNamespace], count: int) -> Any:
    parts, members = [], []
    for b in batches:
        k = SimpleNamespace(**{n: LAYOUT.values(v, n, b.chips, b.networks) for n in NAMES})
        parts.append(time_us(b.terms, k).expand(len(b.members)))
        members.append(b.members)
    times = torch.zeros(count)
    return times.index_put((torch.cat(members),), torch.cat(parts))


def _weights(rows: list[SimpleNamespace]) -> Any:
    """Tables alike, but those of few sizes less, and each of one system's many; a published one's two
    largest sizes more.
    """
    sizes, tables = defaultdict(set), defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    for r in rows:
        sizes[r.table].add(r.size)
        tables[r.system].add(r.table)
        counts[r.table] += 1
    weights = []
    for r in rows:
        many = len(tables[r.system])
        w = (1 / many**0.5 if r.published else 4 / many) / max(counts[r.table], FEW)
        if r.published and r.size >= sorted(sizes[r.table])[-2:][0]:
            w *= TOP
        weights.append(w if r.fitted else 0.0)
    return 12 * torch.tensor(weights)


def fit(rows: list[SimpleNamespace], steps: int = 250) -> Any:
    """The parameters that fit ``rows``."""
    batches, weights = _batches(rows), _weights(rows)
    logs = torch.log(torch.tensor([r.time for r in rows]))
    systems = sorted({r.system for r in rows})
    system = torch.tensor([systems.index(r.system) for r in rows])
    size = len(LAYOUT.sigmas)
    v = torch.cat([torch.zeros(size), torch.full((len(systems),), 3.0)]).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [v], max_iter=steps, history_size=30, line_search_fn="strong_wolfe", tolerance_change=1e-8
    )
    free = LAYOUT.sigmas > 0

    def loss() -> Any:
        optimizer.zero_grad()
        host_us = v[size:] ** 2
        error = (torch.log(_times(v[:size], batches, len(rows)) + host_us[system]) - logs) / NOISE
        robust = LINEAR_FROM**2 * (torch.sqrt(1 + (error / LINEAR_FROM) ** 2) - 1)
        prior = 0.5 * ((v[:size][free] / LAYOUT.sigmas[free]) ** 2).sum()
        total = (weights * robust).sum() + prior + 2 * torch.log1p(host_us / HOST_US).sum()
        total.backward()
        v.grad[:size][~free] = 0
        return total

    optimizer.step(loss)
    return v.detach()[:size]


def predicted(v: Any, rows: list[SimpleNamespace]) -> Any:
    """µs of each row."""
    with torch.no_grad():
        return _times(v, _batches(rows), len(rows)).numpy()


def cross_validated(rows: list[SimpleNamespace], folds: int) -> Any:
    """Each system predicted with constants fitted on others: on all of them, or on those of other folds."""
    times = np.zeros(len(rows))
    systems = sorted({r.system for r in rows})
    count = folds or len(systems)
    for fold in range(count):
        gone = set(systems[fold::count])
        out = [i for i, r in enumerate(rows) if r.system in gone]
        v = fit([r for r in rows if r.system not in gone])
        times[out] = predicted(v, [rows[i] for i in out])
        print(f"left out {fold + 1}/{count}: {', '.join(sorted(gone))}", file=sys.stderr)
    return times


def report(title: str, rows: list[SimpleNamespace], times: Any) -> dict[str, Any]:
    """Print scores by kind of file; returns the main ones."""
    tables = defaultdict(list)
    for row, time in zip(rows, times, strict=True):
        tables[row.table].append((row, time))
    lines = []
    for name, members in tables.items():
        r = members[0][0]
        sizes = sorted({m.size for m, _ in members})
        first = sizes[:4] if r.published else sizes[:1]
        offset = float(np.median([m.time - t for m, t in members if m.size in first]))
        rest = [abs(max(t + offset, 0.1) / m.time - 1) for m, t in members if m.size not in first]
        library = [abs(m.library / m.time - 1) for m, _ in members if m.library]
        lines.append(SimpleNamespace(
            name=name, row=r, mape=np.mean([abs(t / m.time - 1) for m, t in members]),
            one=np.mean(rest) if rest else math.nan, library=np.mean(library) if library else math.nan,
            plateau=np.mean([m.time / t for m, t in members if m.size in sizes[-2:]]),
        ))  # fmt: skip
    published = [x for x in lines if x.row.published]
    single = [x for x in lines if not x.row.published]
    result: dict[str, Any] = {}
    if published:
        near = [abs(x.plateau - 1) for x in published]
        result["published"] = {
            "tables": len(published),
            "plateau_within_10_pct": round(100 * float(np.mean(np.array(near) <= 0.10))),
            "plateau_within_20_pct": round(100 * float(np.mean(np.array(near) <= 0.20))),
            "median_mape_pct": round(100 * float(np.median([x.mape for x in published])), 1),
            "median_mape_one_latency_pct": round(
                100 * float(np.nanmedian([x.one for x in published])), 1
            ),
            "nccl_median_mape_pct": round(
                100 * float(np.nanmedian([x.library for x in published])), 1
            ),
        }
        for x in published:
            print(
                f"  {title} {x.name:30s} mape {100 * x.mape:6.1f} one {100 * x.one:6.1f}"
                f" plateau {x.plateau:5.2f} NCCL {100 * x.library:6.1f}"
            )
    if single:
        groups = defaultdict(list)
        for x in single:
            groups[x.row.system, x.row.collective].append(x)
        means = {k: 100 * np.mean([x.mape for x in v]) for k, v in groups.items()}
        ones = {k: 100 * np.mean([x.one for x in v]) for k, v in groups.items()}
        ours = [k for k in means if k[1] != "all_to_all"]
        a2a = [k for k in means if k[1] == "all_to_all"]
        result["single_node"] = {
            "median_mape_pct": round(float(np.median([means[k] for k in ours])), 1),
            "median_mape_one_latency_pct": round(float(np.median([ones[k] for k in ours])), 1),
            "all_to_all_median_mape_pct": round(float(np.median([means[k] for k in a2a])), 1),
            "nccl_median_mape_pct": round(
                float(np.median([100 * np.mean([x.library for x in groups[k]]) for k in ours])), 1
            ),
        }
        for k in sorted(means):
            print(f"  {title} {k[0]:12s} {k[1]:15s} mape {means[k]:6.1f} one {ones[k]:6.1f}")
    print(title, result)
    return result


def _yaml(v: Any, rows: list[SimpleNamespace], scores: dict[str, Any]) -> str:
    lines = [
        "# Written by tests/benchmarks/fit_effects.py. What each constant is: cost/effects/formula.py.",
        "# µs, bytes, shares of NCCL's own rate. A class of which nothing was measured has the shared value.",
        f'source: "fitted to nccl-tests on {len({r.system for r in rows})} systems '
        f'({len({r.table for r in rows})} tables), by class of GPU and network"',
        "scores: # fitted: on these tables; left_out: on each system without it in the fit",
    ]
    for title, by_file in scores.items():
        lines.append(f"  {title}:")
        for name, figures in by_file.items():
            lines.append(f"    {name}: {{{', '.join(f'{k}: {x}' for k, x in figures.items())}}}")
    for group, classes, names in (
        ("chips", kept.CHIPS, kept.CHIP_CONSTANTS),
        ("networks", kept.NETWORKS, kept.NETWORK_CONSTANTS),
    ):
        lines.append(f"{group}:")
        index = torch.arange(len(classes))
        for name in names:
            values = LAYOUT.values(v, name, index, index)
            cells = ", ".join(f"{c}: {float(x):.4g}" for c, x in zip(classes, values, strict=True))
            lines.append(f"  {name}: {{{cells}}}")
    lines.append("shared:")
    zero = torch.zeros(1, dtype=torch.long)
    lines += [f"  {n}: {float(LAYOUT.values(v, n, zero, zero)):.4g}" for n in kept.SHARED_CONSTANTS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
