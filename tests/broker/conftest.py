"""A static cluster of three brokers in a temporary directory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster_view import BrokerRegistration
from tierfetch.broker.config import BrokerConfig, parse
from tierfetch.broker.static_view import StaticClusterView
from tierfetch.log.disk_os import OsDisk
from tierfetch.tests.broker.hosting import Host


@pytest.fixture
async def disk() -> AsyncIterator[OsDisk]:
    disk = OsDisk(threads=2)
    yield disk
    await disk.close()


@pytest.fixture
async def view(tmp_path: Path, disk: OsDisk) -> AsyncIterator[StaticClusterView]:
    view = StaticClusterView(tmp_path / "cluster.yaml", disk, random.Random(1))
    await view.start()
    for number in (1, 2, 3):
        await view.register(BrokerRegistration(number, "127.0.0.1", 9000 + number, None, (UUID(int=number),)), found=[])
    yield view
    await view.close()


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return parse({"node.id": "1", "log.dirs": str(tmp_path / "data"), "static.cluster.file": "c.yaml"}, "test")[0]


@pytest.fixture
async def host(view: StaticClusterView, disk: OsDisk, tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(view, disk, tmp_path / "data")
    yield host
    await host.close()
