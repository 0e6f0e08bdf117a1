"""A broker's side of the tier: the two plugins, what works on them, and their order of start and stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from ..fetcher.aux_state import AuxStateBuilder
from ..log.disk.port import Disk
from ..protocol.net.client import KafkaClient
from ..remote.index_cache import RemoteIndexCache
from ..remote.metadata_topic import RemoteLogMetadataContext
from ..remote.registry import load_remote_log_metadata
from ..remote.snapshot_files import SnapshotFiles
from ..rlm.chunks import RemoteChunks
from ..rlm.config import RemoteLogManagerConfig
from ..rlm.manager import RemoteLogManager
from ..rlm.pending_deletions import PendingDeletions
from ..rlm.rate_limit import LimitedReads, RateLimit
from ..rlm.reader import RemoteLogReader
from ..rlm.times import OffsetsByTime
from .cluster.view import ClusterView
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
        reader_threads=config.remote_log_reader_threads,
        fetch_max_wait_ms=config.remote_fetch_max_wait_ms,
        list_offsets_timeout_ms=config.remote_list_offsets_request_timeout_ms,
    )


class Tier:
    """Open it with `open`."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: NodeEnvironment,
        topic: BrokerMetadataTopic,
        give_up: Callable[[str], None],
    ) -> None:
        """PluginError, which names the plugin and key, if a plugin cannot be had."""
        assert config.storage_plugin is not None, "checked by the configuration"
        self._topic = topic
        self._storage = environment.open_remote_storage(
            config.storage_plugin, config.rsm_config, config.remote_log_storage_manager_impl_prefix
        )
        self._metadata = load_remote_log_metadata(
            config.remote_log_metadata_manager_class_name,
            config.rlmm_config,
            RemoteLogMetadataContext(
                topic, environment.rng, give_up, SnapshotFiles(environment.disk, config.log_dirs[0])
            ),
            key_prefix=config.remote_log_metadata_manager_impl_prefix,
        )
        self.manager = RemoteLogManager(
            self._storage,
            self._metadata,
            broker_id=config.node_id,
            config=manager_config(config),
            random=environment.rng,
            wall_clock_ms=environment.now_ms,
            deletions=PendingDeletions(environment.disk, config.log_dirs[0]),
        )
        self.aux_states = AuxStateBuilder(self.manager.storage, self._metadata)
        limits = manager_config(config)
        self._fetch_limit = RateLimit(limits.fetch_max_bytes_per_second)
        self._chunks = RemoteChunks(
            self.manager.storage,
            self.manager.counters,
            self._fetch_limit,
            chunk_bytes=limits.reader_chunk_bytes,
            cache_bytes=limits.reader_cache_bytes,
            fetches_max=limits.reader_threads,
            ahead_chunks=limits.reader_ahead_chunks,
        )

    @classmethod
    async def open(
        cls,
        config: BrokerConfig,
        environment: NodeEnvironment,
        view: ClusterView,
        questions: KafkaClient,
        make_client: Callable[[], KafkaClient],
        give_up: Callable[[str], None],
    ) -> Self:
        """Returns at once: the metadata topic is looked for in the background. `give_up` is called, with the reason, if
        this broker's configuration contradicts it.
        """
        timeout_s = config.request_timeout_ms / 1000
        topic = BrokerMetadataTopic(view, questions, make_client, environment.now_ms, timeout_s=timeout_s)
        tier = cls(config, environment, topic, give_up)
        await tier._start(config, environment.disk)
        return tier

    async def _start(self, config: BrokerConfig, disk: Disk) -> None:
        limits = manager_config(config)
        self._indexes = await RemoteIndexCache.open(
            disk,
            config.log_dirs[0],
            LimitedReads(self.manager.storage, self._fetch_limit),
            config.remote_log_index_file_cache_total_size_bytes,
        )
        self.reads = RemoteLogReader(self._metadata, self._chunks, self._indexes, max_wait_ms=limits.fetch_max_wait_ms)
        by_time = OffsetsByTime(self._metadata, self._chunks, self._indexes, timeout_ms=limits.list_offsets_timeout_ms)
        self.offsets = RemoteOffsets(self.manager.ledger, by_time)
        await self._metadata.start()
        await self.manager.start()

    async def close(self) -> None:
        await self.manager.close()
        await self._chunks.close()
        await self._indexes.close()
        await self._metadata.close()
        await self._topic.close()
        await self._storage.close()
