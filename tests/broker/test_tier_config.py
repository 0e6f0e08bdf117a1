"""Every key of the remote log manager reaches what keeps to it."""

from __future__ import annotations

import dataclasses

import pytest

from tierfetch.broker.config.broker_config import parse_broker_config
from tierfetch.broker.tier import manager_config
from tierfetch.log.core import ConfigError
from tierfetch.rlm.config import RemoteLogManagerConfig

KEYS = {
    "remote.log.manager.task.interval.ms": "task_interval_ms",
    "remote.log.manager.task.retry.backoff.ms": "task_retry_backoff_ms",
    "remote.log.manager.task.retry.backoff.max.ms": "task_retry_backoff_max_ms",
    "remote.log.manager.copier.thread.pool.size": "copier_thread_pool_size",
    "remote.log.manager.expiration.thread.pool.size": "expiration_thread_pool_size",
    "remote.log.manager.copy.max.bytes.per.second": "copy_max_bytes_per_second",
    "remote.log.manager.fetch.max.bytes.per.second": "fetch_max_bytes_per_second",
    "remote.log.manager.copy.timeout.ms": "copy_timeout_ms",
    "request.timeout.ms": "request_timeout_ms",
    "remote.log.metadata.custom.metadata.max.bytes": "custom_metadata_max_bytes",
    "transaction.max.timeout.ms": "transaction_max_timeout_ms",
    "remote.log.reader.threads": "reader_threads",
    "remote.log.reader.chunk.bytes": "reader_chunk_bytes",
    "remote.log.reader.cache.bytes": "reader_cache_bytes",
    "remote.fetch.max.wait.ms": "fetch_max_wait_ms",
    "remote.list.offsets.request.timeout.ms": "list_offsets_timeout_ms",
}
OF_OUR_OWN = {
    "orphaned_deletion_delay_ms",
    "task_retry_jitter",
    "copy_min_bytes_per_second",
    "reader_ahead_chunks",
}
NODE = {"node.id": "1", "log.dirs": "/data", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}


@pytest.mark.parametrize(("key", "field"), KEYS.items())
def test_a_key_sets_its_limit_and_no_other(key: str, field: str) -> None:
    default = manager_config(parse_broker_config(NODE, "test")[0])
    value = 12_345_678  # more than a chunk of the cache
    changed = manager_config(parse_broker_config({**NODE, key: str(value)}, "test")[0])
    assert changed == dataclasses.replace(default, **{field: value})
    assert getattr(default, field) == getattr(RemoteLogManagerConfig(), field), "one default, in two places"


def test_a_chunk_fits_into_the_cache() -> None:
    keys = {"remote.log.reader.chunk.bytes": "1001", "remote.log.reader.cache.bytes": "1000"}
    with pytest.raises(ConfigError, match=r"chunk.bytes \(1001\) must be at most remote.log.reader.cache.bytes"):
        parse_broker_config({**NODE, **keys}, "test")


def test_every_limit_has_a_key_or_is_our_own() -> None:
    assert {*KEYS.values(), *OF_OUR_OWN} == {field.name for field in dataclasses.fields(RemoteLogManagerConfig)}
