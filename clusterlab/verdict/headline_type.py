"""What a reader of a run wants first, as data."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.findings import Verdict


@dataclass(frozen=True, slots=True)
class Headline:
    """``verdict`` is the run's; of a run whose own predictions judge nothing, that of ``why`` (``by_why``).

    ``worst`` and ``reason`` are parts of a sentence; ``command`` is what to type, ``advice`` what to do or to
    look at besides, or where no command does it. Either may be empty. ``finding``: ``warning: slow link``,
    where it is one.
    """

    verdict: Verdict
    worst: str
    reason: str = ""
    command: str = ""
    advice: str = ""
    by_why: bool = False
    finding: str = ""

    @property
    def sentence(self) -> str:
        """All of it but the command."""
        reason = f"; likeliest reason: {self.reason}" if self.reason else ""
        return f"{self.worst}{reason}."
