"""How slow a fault makes what touches it, and how likely what was measured then is. Pure.

A message is as slow as the slowest part of its way, a group as its slowest member: of a part that is full to
u with f of its rate left, f / u gets through. Noise is normal in the logarithm of the rate, with two further
kinds of measurement: some that scatter three times as much, and a few that may be anything (a collision, a
hiccup of the host). Weights and widths of these were chosen once, not fitted: the exact figures decide only
how many slow measurements one accusation needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from clusterlab.verdict.localise.types import DEAD, Bools, Crossed, Floats, some_of

LEFT: Floats = np.array([DEAD, *(0.05 * (0.95 / 0.05) ** (np.arange(24) / 23))])
"""What may be left of a component's rate; each is as likely as the others. Steps of 14 %."""

_UNSURE = 0.05
"""What a slow part gives scatters, beyond noise, by this: it is between two of LEFT, and not steady."""

_WIDE, _WIDE_SHARE = 3.0, 0.06
_ANYTHING_SHARE = 0.02
_ANYTHING_WIDTH = float(-np.log(DEAD)) + 0.5
_NORMAL = float(np.sqrt(2 * np.pi))


def log_left(crossed: Crossed, left: Floats) -> Floats:
    """[pairs of component and probe, left]: the logarithm of what each probe still gets, at most 0."""
    if crossed.chance:
        through = np.broadcast_to(left[None, :], (len(crossed.full), len(left)))
    else:
        through = 1 - crossed.share[:, None] * (1 - left[None, :])
    return np.log(np.clip(through / crossed.full[:, None], DEAD, 1.0))


def log_density(residual: Floats, noise: Floats) -> Floats:
    """Of a measurement ``residual`` off what is expected, both in the logarithm of the rate."""
    z2 = (residual / noise) ** 2
    core = (1 - _WIDE_SHARE - _ANYTHING_SHARE) * np.exp(-0.5 * z2)
    wide = _WIDE_SHARE / _WIDE * np.exp(-0.5 / _WIDE**2 * z2)
    found: Floats = np.log((core + wide) / (noise * _NORMAL) + _ANYTHING_SHARE / _ANYTHING_WIDTH)
    return found


@dataclass(frozen=True, eq=False)
class Effects:
    """What faults do to measurements, whatever those find. Where all of a probe passes a component and fills
    it, its fault's effect is the same for all of them: those pairs are one sparse product.
    """

    crossed: Crossed
    components: int

    @cached_property
    def _plain(self) -> Bools:
        return (self.crossed.full >= 1) & (self.crossed.share >= 1)

    @cached_property
    def _matrix(self) -> Any:
        from scipy.sparse import csr_array

        rows, columns = self.crossed.component[self._plain], self.crossed.probe[self._plain]
        shape = (self.components, max(1, self.crossed.probes))
        return csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)

    @cached_property
    def _others(self) -> Crossed:
        return some_of(self.crossed, ~self._plain)

    @cached_property
    def _effect(self) -> Floats:
        return log_left(self._others, LEFT)

    def gains(self, seen: Floats, noise: Floats, base: Floats) -> Floats:
        """[components, LEFT] how much likelier the measurements are when a component is at fault as well.

        ``seen`` [probes] is the logarithm of what each got of what it should, ``base`` what the faults that
        are known already leave it.
        """
        if self.crossed.probes == 0:
            return np.zeros((self.components, len(LEFT)))
        without = log_density(seen - base, noise)
        each = np.log(LEFT)[None, :]
        gain = _slow(seen[:, None], noise[:, None], base[:, None], each) - without[:, None]
        found: Floats = self._matrix @ gain
        some = self._others
        for column in range(len(LEFT) if len(some.probe) else 0):
            at = some.probe
            slow = _slow(seen[at], noise[at], base[at], self._effect[:, column])
            if some.chance:
                by_chance = np.log(some.share) + slow
                stays = np.log1p(-np.minimum(some.share, 1 - 1e-12)) + without[at]
                slow = np.where(some.share >= 1, slow, np.logaddexp(by_chance, stays))
            found[:, column] += np.bincount(
                some.component, weights=slow - without[at], minlength=self.components
            )
        return found


def _slow(seen: Floats, noise: Floats, base: Floats, effect: Floats) -> Floats:
    """Log density where a fault of ``effect`` comes to what is known; where it changes nothing, without."""
    changes = effect < base
    wider = np.where(changes, np.sqrt(noise**2 + np.minimum(_UNSURE, -effect / 2) ** 2), noise)
    return log_density(seen - np.minimum(base, effect), wider)
