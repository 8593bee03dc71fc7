"""Shipped fabrics, read once for the tests of a process: with what was searched and routed on them before."""

from __future__ import annotations

from functools import lru_cache

from clusterlab.topology.design import load

load_fabric = lru_cache(24)(load.load_fabric)
"""A fabric is frozen, and what it keeps goes by all that was asked: sharing changes no answer."""
