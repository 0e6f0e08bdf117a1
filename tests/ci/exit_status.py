"""A pytest plugin that leaves the exit status in a file: `make` reports any failure of what it runs as its own 2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

PLUGIN: Final = "tierfetch.tests.ci.exit_status"
STATUS_VARIABLE: Final = "TIERFETCH_PYTEST_STATUS"
"""The environment's variable with the name of that file."""


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the status of the run, not of one of its workers."""
    from xdist import is_xdist_worker  # CI reads this module's names before anything is installed

    path = os.environ.get(STATUS_VARIABLE)
    if path and not is_xdist_worker(session):
        Path(path).write_text(str(int(exitstatus)))
