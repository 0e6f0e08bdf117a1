"""The pytest plugin: a real cluster as a fixture. Installing tierfetch registers it (entry point `pytest11`).

| fixture                     | scope    | what it gives                                                        |
|-----------------------------|----------|----------------------------------------------------------------------|
| `tierfetch_cluster`         | function | a cluster, with the options of the marker `tierfetch`                |
| `tierfetch_cluster_session` | session  | one cluster for all tests; `unique_topic()` keeps them apart         |
| `tierfetch_cluster_factory` | function | starts clusters with the options of a call, and ends them all        |

    @pytest.mark.tierfetch(brokers=3, tier="s3", policy="tier-first")
    def test_x(tierfetch_cluster): ...

The marker `tierfetch_seeds` runs a test of a simulated application with many seeds (`simulation/seeds.py`).

The log of the nodes goes through `logging`, at INFO while a cluster runs, so pytest shows it where a test fails.
Nothing of a broker is imported before a test asks for a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from .simulation import seeds

if TYPE_CHECKING:
    from .cluster.local_cluster import InProcessCluster

Factory = Callable[..., "InProcessCluster"]

MARKER = "tierfetch"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=1, tier='local', policy=None, configs=, ...): the options of the fixture tierfetch_cluster",
    )
    config.addinivalue_line(
        "markers", f"{seeds.MARKER}(count=10, start=1): run the test with so many values of its argument `seed`"
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    seeds.add_options(parser)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seeds.parametrize(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    seeds.explain(item, report)
    return report


@contextmanager
def _running(**options: Any) -> Iterator[InProcessCluster]:
    """Run a cluster, and log its nodes at INFO meanwhile."""
    import logging

    from . import ClusterOptions, InProcessCluster

    logger = logging.getLogger("tierfetch")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        with InProcessCluster(ClusterOptions(**options)) as cluster:
            yield cluster
    finally:
        logger.setLevel(level)


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        return {}
    if marker.args:
        raise pytest.UsageError(f"{request.node.nodeid}: the options of the marker {MARKER} are given by name")
    return dict(marker.kwargs)


@pytest.fixture
def tierfetch_cluster(request: pytest.FixtureRequest) -> Iterator[InProcessCluster]:
    """A cluster for one test: a controller, and as many brokers as the marker says."""
    with _running(**_options(request)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def tierfetch_cluster_session() -> Iterator[InProcessCluster]:
    """One broker for all tests of the session, or of one xdist worker."""
    with _running() as cluster:
        yield cluster


@pytest.fixture
def tierfetch_cluster_factory() -> Iterator[Factory]:
    """Return what starts a cluster with the options of `ClusterOptions`; all of them end with the test."""
    with ExitStack() as stack:

        def start(**options: Any) -> InProcessCluster:
            return stack.enter_context(_running(**options))

        yield start
