"""What NCCL was over a whole run, kept beside its rows."""

from __future__ import annotations

import sys
from pathlib import Path

from clusterlab.bench.witness import Witness
from clusterlab.records.files import write_json

FILE = "nccl/facts.json"


def keep_library_facts(witness: Witness, run_path: Path) -> None:
    """Close ``witness``; its notes and NCCL's warnings on stderr, all of it in the run's nccl/facts.json.

    Nothing is kept where no NCCL was watched.
    """
    facts = witness.close()
    for note in (*facts.notes, *(f"NCCL: {text}" for text in facts.warnings)):
        print(f"clusterlab: {note}", file=sys.stderr)
    if facts.version is not None:
        path = run_path / FILE
        path.parent.mkdir(exist_ok=True)
        write_json(path, facts.to_json())
