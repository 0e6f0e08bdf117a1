"""The tier of a broker: whole while it is open, and closed again by a start that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.broker import tier
from tierfetch.broker.config.broker_config import BrokerConfig, parse_broker_config
from tierfetch.broker.environment import NodeEnvironment
from tierfetch.broker.metadata_topic import BrokerMetadataTopic
from tierfetch.broker.tier import open_tier
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.remote.registry import PluginError
from tierfetch.tests.fakes.cluster_view import FakeCluster
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage


class CountingStorage(MemoryRemoteStorage):
    """Counts how often it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1
        await super().close()


def tiered_config(base: Path) -> BrokerConfig:
    properties = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(base),
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.plugin": "local",
    }
    return parse_broker_config(properties, "test")[0]


async def start(base: Path, storage: CountingStorage) -> None:
    environment = NodeEnvironment(open_remote_storage=lambda *_: storage)
    client = KafkaClient(client_id="test", random=environment.rng)
    topic = BrokerMetadataTopic(FakeCluster().view(), client, lambda: client, environment.now_ms, timeout_s=1.0)
    try:
        config = tiered_config(base)
        async with open_tier(config, environment, topic, pytest.fail, lambda: config):
            assert storage.closed == 0
    finally:
        await client.close()
        await environment.disk.close()


async def test_a_tier_is_closed_at_the_end(tmp_path: Path) -> None:
    storage = CountingStorage()
    await start(tmp_path, storage)
    assert storage.closed == 1


async def test_a_start_that_fails_closes_the_plugin_that_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PluginError("no such plugin")

    monkeypatch.setattr(tier, "load_remote_log_metadata", refuse)
    storage = CountingStorage()
    with pytest.raises(PluginError, match="no such plugin"):
        await start(tmp_path, storage)
    assert storage.closed == 1
