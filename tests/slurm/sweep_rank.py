"""A rank of a sweep that is given as text, for what the command line need not have typed: its fields as JSON.

sweep_rank.py '{"collective_text": "all_reduce", "begin": "4K", …, "pattern": "rail", "uneven": null}'
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.runs.directory import given_or_new_run
from clusterlab.runs.sweeping.plan import resolve_config
from clusterlab.runs.sweeping.sweep import SweepStart, run_sweep


def main() -> int:
    asked = json.loads(sys.argv[1])
    pattern, uneven = asked.pop("pattern"), asked.pop("uneven")
    config = replace(resolve_config(**asked), pattern=pattern, uneven=uneven)
    return run_sweep(
        SweepStart(
            config=config,
            ranks=None,
            open_run=lambda: given_or_new_run("groups"),
            as_json=False,
            strict_table=False,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
