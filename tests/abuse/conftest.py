"""The nodes that a test watches, with honest clients beside them. Every test here is marked `abuse` and `slow`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.tests.abuse.watched import Watched, watched_node


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.abuse)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def watched(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Watched]]:
    """Watch broker 1 of a module's `cluster`, whose topic `t` the honest client has. A module may have its own."""
    with watched_node(cluster, 1, "t", tmp_path_factory.mktemp("honest")) as broker:
        yield [broker]


@pytest.fixture
def unharmed(watched: Sequence[Watched], request: pytest.FixtureRequest) -> Iterator[None]:
    """Before and after each attack the honest clients are served; in between too."""
    for each in watched:
        each.honest.wait_for_each()
    yield
    for each in watched:
        each.check(request.node.name)
