"""A cluster of three brokers that are not there, and the first one's partitions in a temporary directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration
from tierfetch.broker.config.broker_config import BrokerConfig, parse_broker_config
from tierfetch.log.disk import OsDisk
from tierfetch.tests.broker.hosting import Host
from tierfetch.tests.fakes.cluster_view import FakeClusterView


@pytest.fixture
async def disk() -> AsyncIterator[OsDisk]:
    disk = OsDisk(threads=2)
    yield disk
    await disk.close()


@pytest.fixture
async def view() -> FakeClusterView:
    view = FakeClusterView()
    for number in (1, 2, 3):
        await view.register(BrokerRegistration(number, "127.0.0.1", 9000 + number, None, (UUID(int=number),)))
    return view


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return parse_broker_config(
        {"node.id": "1", "log.dirs": str(tmp_path / "data"), "controller.quorum.bootstrap.servers": "127.0.0.1:9093"},
        "test",
    )[0]


@pytest.fixture
async def host(view: FakeClusterView, disk: OsDisk, tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(view, disk, tmp_path / "data")
    yield host
    await host.close()
