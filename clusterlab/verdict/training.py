"""What the steps of a training run say: findings."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.stepping import StepLine


def training_findings(steps: Sequence[StepLine]) -> tuple[Finding, ...]:
    """A loss that is not finite ends a run."""
    lost = [step for step in steps if step.loss is None]
    if not lost:
        return ()
    before = [step.loss for step in steps if step.loss is not None and step.step < lost[0].step]
    said = f"; the loss before was {before[-1]:.4f}" if before else ""
    return (
        Finding(
            code="LOSS_NOT_FINITE",
            severity=Severity.ERROR,
            evidence=(f"the loss of step {lost[0].step} is not finite{said}",),
            fix="a smaller --lr, or a wider --dtype; float64 tells rounding from divergence",
        ),
    )
