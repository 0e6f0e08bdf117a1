"""Options of the whole test suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says nothing on a busy machine; pytest's timeout bounds each test.
settings.register_profile("tierfetch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tierfetch")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what transcripts print now into their files")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))
