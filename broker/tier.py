"""A broker's side of the tier: the two plugins, what works on them, and their order of start and stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from ..fetcher import AuxStateBuilder
from ..light_dataclass import dataclass
from ..remote import (
    RemoteIndexCache,
    RemoteLogMetadataContext,
    RemoteStorageManager,
    SnapshotFiles,
    load_remote_log_metadata,
)
from ..rlm import (
    LimitedReads,
    OffsetsByTime,
    PendingDeletions,
    RateLimit,
    RemoteChunks,
    RemoteLogManager,
    RemoteLogManagerConfig,
    RemoteLogReader,
)
from ..rlm.worker import StorageRecipe, WorkerStorage, may_copy_in_worker
from .config.broker_config import BrokerConfig
from .environment import NodeEnvironment
from .handlers.offsets import RemoteOffsets
from .metadata_topic import BrokerMetadataTopic


def manager_config(config: BrokerConfig) -> RemoteLogManagerConfig:
    """The keys of the remote log manager."""
    return RemoteLogManagerConfig(
        task_interval_ms=config.remote_log_manager_task_interval_ms,
        task_retry_backoff_ms=config.remote_log_manager_task_retry_backoff_ms,
        task_retry_backoff_max_ms=config.remote_log_manager_task_retry_backoff_max_ms,
        expiration_thread_pool_size=config.remote_log_manager_expiration_thread_pool_size,
        copy_max_bytes_per_second=config.remote_log_manager_copy_max_bytes_per_second,
        fetch_max_bytes_per_second=config.remote_log_manager_fetch_max_bytes_per_second,
        copier_thread_pool_size=config.remote_log_manager_copier_thread_pool_size,
        copy_timeout_ms=config.remote_log_manager_copy_timeout_ms,
        request_timeout_ms=config.request_timeout_ms,
        custom_metadata_max_bytes=config.remote_log_metadata_custom_metadata_max_bytes,
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        reader_threads=config.remote_log_reader_threads,
        reader_chunk_bytes=config.remote_log_reader_chunk_bytes,
        reader_cache_bytes=config.remote_log_reader_cache_bytes,
        fetch_max_wait_ms=config.remote_fetch_max_wait_ms,
        list_offsets_timeout_ms=config.remote_list_offsets_request_timeout_ms,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Tier:
    """What runs on the two plugins; `open_tier` makes it whole."""

    manager: RemoteLogManager
    aux_states: AuxStateBuilder
    reads: RemoteLogReader
    offsets: RemoteOffsets


@asynccontextmanager
async def open_tier(
    config: BrokerConfig,
    environment: NodeEnvironment,
    topic: BrokerMetadataTopic,
    give_up: Callable[[str], None],
    in_force: Callable[[], BrokerConfig],
) -> AsyncIterator[Tier]:
    """Run the tier's parts, and close them and `topic` at the end. Raise PluginError if a plugin cannot be had.
    `in_force` returns the configuration with the dynamic keys of the moment.

    It does not wait for the metadata topic, which is looked for in the background. `give_up` is called, with the
    reason, if this broker's configuration contradicts that topic.
    """
    async with AsyncExitStack() as stack:
        storage = _open_storage(config, environment)
        stack.push_async_callback(storage.close)
        stack.push_async_callback(topic.close)
        metadata = load_remote_log_metadata(
            config.remote_log_metadata_manager_class_name,
            config.rlmm_config,
            RemoteLogMetadataContext(
                topic, environment.rng, give_up, SnapshotFiles(environment.disk, config.log_dirs[0])
            ),
            key_prefix=config.remote_log_metadata_manager_impl_prefix,
        )
        stack.push_async_callback(metadata.close)
        limits = _live_limits(config, in_force)
        manager = RemoteLogManager(
            storage,
            metadata,
            broker_id=config.node_id,
            config=limits,
            random=environment.rng,
            wall_clock_ms=environment.now_ms,
            deletions=PendingDeletions(environment.disk, config.log_dirs[0]),
        )
        # Consumers, time look-ups and the index cache share one quota (remote.log.manager.fetch.max.bytes.per.second).
        fetch_limit = RateLimit(limits.fetch_max_bytes_per_second)
        indexes = await RemoteIndexCache.open(
            environment.disk,
            config.log_dirs[0],
            LimitedReads(manager.storage, fetch_limit),
            config.remote_log_index_file_cache_total_size_bytes,
        )
        indexes.on_rebuilt = manager.counters.note_rebuilt_index
        chunks = _chunks(manager, limits, fetch_limit)
        # Users close before what they use: the manager first, the plugins last.
        for part in (indexes, chunks, manager):
            stack.push_async_callback(part.close)
        await metadata.start()
        await manager.start()
        by_time = OffsetsByTime(metadata, chunks, indexes, timeout_ms=limits.list_offsets_timeout_ms)
        yield Tier(
            manager=manager,
            aux_states=AuxStateBuilder(manager.storage, metadata),
            reads=RemoteLogReader(metadata, chunks, indexes, max_wait_ms=limits.fetch_max_wait_ms),
            offsets=RemoteOffsets(manager.ledger, by_time),
        )


def _live_limits(config: BrokerConfig, in_force: Callable[[], BrokerConfig]) -> RemoteLogManagerConfig:
    """Return the manager's limits, with rates that follow the dynamic keys."""
    return replace(
        manager_config(config),
        copy_max_bytes_per_second=lambda: in_force().remote_log_manager_copy_max_bytes_per_second,
        fetch_max_bytes_per_second=lambda: in_force().remote_log_manager_fetch_max_bytes_per_second,
    )


def _open_storage(config: BrokerConfig, environment: NodeEnvironment) -> RemoteStorageManager:
    assert config.storage_plugin is not None, "checked by the configuration"
    recipe = StorageRecipe(config.storage_plugin, config.rsm_config, config.remote_log_storage_manager_impl_prefix)
    storage = environment.open_remote_storage(recipe.plugin, recipe.options, recipe.key_prefix)
    is_wanted = environment.may_start_processes and config.remote_log_manager_copy_worker_enable
    return WorkerStorage(storage, recipe) if is_wanted and may_copy_in_worker(storage) else storage


def _chunks(manager: RemoteLogManager, limits: RemoteLogManagerConfig, fetch_limit: RateLimit) -> RemoteChunks:
    return RemoteChunks(
        manager.storage,
        manager.counters,
        fetch_limit,
        chunk_bytes=limits.reader_chunk_bytes,
        cache_bytes=limits.reader_cache_bytes,
        fetches_max=limits.reader_threads,
        ahead_chunks=limits.reader_ahead_chunks,
    )
