"""Why nothing was found: names that no run has, and the nearest that one has."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.core.suggest import did_you_mean
from clusterlab.records.index import Index
from clusterlab.runs.history.filters import Filters, like

_MOST = 6


def hints(index: Index, asked: Filters) -> Iterator[str]:
    """A sentence for every option whose names no run has."""
    said = [entry.said for entry in index.runs.entries.values()]
    for option, words, values in (
        ("--cluster", asked.clusters, {str(one["cluster"]) for one in said if one.get("cluster")}),
        ("--fabric", asked.fabrics, {str(one["fabric"]) for one in said if one.get("fabric")}),
        ("--kind", asked.kinds, {str(one["kind"]) for one in said if one.get("kind")}),
        ("--host", asked.hosts, {str(h) for one in said for h in one.get("hosts") or ()}),
        ("--backend", asked.backends, {str(b) for one in said for b in one.get("backends") or ()}),
    ):
        for word in words:
            if any(like(value, [word]) for value in values):
                continue
            known = sorted(values)
            listed = ", ".join(known[:_MOST]) + (
                f", … ({len(known)})" if len(known) > _MOST else ""
            )
            near = did_you_mean(word, known)
            yield f"{option}: no run has {word!r}; {near or f'there are: {listed or None}'}"
