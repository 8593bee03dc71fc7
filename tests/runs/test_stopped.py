"""SIGTERM at any time of a job's attempt: its end is on record, and that of the attempts before it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.records.run_dir import create_run, end_attempt, open_run, start_attempt
from clusterlab.runs.stopped import finish_stopped


def tell(path: Path, code: int, _message: str | None) -> int:
    end_attempt(open_run(path), code)
    return code


@pytest.mark.parametrize("earlier", [(), (0,), (None,), (4, None), (143, 0)])
@pytest.mark.parametrize("began", [False, True])
def test_the_end_is_that_of_this_jobs_own_attempt(tmp_path, earlier, began):
    """``earlier``: exit codes of requeued attempts; None: killed before it could say so."""
    path = create_run("stopped", root=tmp_path).path
    for code in earlier:
        run = start_attempt(open_run(path))
        if code is not None:
            end_attempt(run, code)
    finish = finish_stopped(path, tell)
    if began:
        start_attempt(open_run(path))
    assert finish(143) == 143
    assert [one.exit_code for one in open_run(path).info.attempts] == [*earlier, 143]
