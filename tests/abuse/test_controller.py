"""A controller under attack: pings beside it wait for no long time, and it stays the active controller, and small."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.tests.abuse import attacks
from tierfetch.tests.abuse.watched import ONLY_PINGS, Watched, watched_node

pytestmark = pytest.mark.usefixtures("unharmed")


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    with LocalQuorum(tmp_path_factory.mktemp("abuse"), 1) as quorum:
        yield quorum


@pytest.fixture(scope="module")
def watched(quorum: LocalQuorum, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Watched]]:
    (node,) = quorum.nodes
    with watched_node(quorum, node, ONLY_PINGS, tmp_path_factory.mktemp("honest")) as controller:
        yield [controller]


REQUESTS: dict[str, Callable[[], bytes]] = {
    "vote 200,000": lambda: attacks.vote(200_000),
    "alter partition 60,000": lambda: attacks.alter_partition(60_000),
    "create 39,000": lambda: attacks.create_topics(39_000),
    "delete 49,000": lambda: attacks.delete_topics(49_000),
    "configs 49,000": lambda: attacks.describe_configs(49_000),
    "alter 24,000": lambda: attacks.alter_configs(24_000),
    "tagged fields 1,000,000": lambda: attacks.tagged_api_versions(1_000_000),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_one_large_request(quorum: LocalQuorum, name: str) -> None:
    (node,) = quorum.nodes
    response = attacks.answer(quorum.port(node), REQUESTS[name]())
    assert response is None or len(response) > 8
