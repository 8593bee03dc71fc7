"""Diagnosis: joined records → findings with code, severity, ranks, evidence and a fix."""

from clusterlab.binding.diagnose.codes import CODES, TAXONOMY, Code
from clusterlab.binding.diagnose.engine import RULES, diagnose

__all__ = ["CODES", "RULES", "TAXONOMY", "Code", "diagnose"]
