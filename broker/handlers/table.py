"""Which API is answered by whom: the dispatch table of a broker's listener."""

from __future__ import annotations

from random import Random

from ...light_dataclass import dataclass
from ...protocol import ApiKey
from ...protocol.fetch import SESSION_ID_MAX, FetchSessionCache
from ...protocol.net import Handler
from ..cluster.controller_channel import ControllerChannel
from ..cluster.view import ClusterView
from ..config.broker_config import BrokerConfig
from ..core.write_rules import IsOngoing, none_ongoing
from ..groups.coordinator import GroupCoordinator
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.leadership import WallClock
from ..replicas.replication_throttles import ReplicationThrottles
from ..share.handlers import ShareHandlers
from ..share_state.coordinator import ShareCoordinator
from ..transactions.parts import Transactions
from .configs import ConfigHandlers
from .consumer_groups import ConsumerGroupHandlers
from .coordinators import CoordinatorHandler
from .delete_records import DeleteRecordsHandler
from .fetch import FetchHandler, FetchQuota
from .forwarding import Forwarding
from .group_admin import GroupAdminHandlers
from .group_configs import GroupConfigHandlers
from .group_offsets import OffsetCommitHandlers
from .groups import GroupHandlers
from .log_dirs import LogDirHandler
from .metadata import ClusterHandlers
from .offsets import OffsetHandlers, RemoteOffsets
from .produce import ProduceHandler
from .replica_selectors import load_replica_selector
from .shares.groups import ShareGroupHandlers
from .shares.state import ShareStateHandlers
from .tier_reads import RemoteReads
from .transaction_admin import TransactionAdminHandlers
from .transactions import TransactionHandlers
from .txn_markers import TransactionMarkerHandler
from .txn_offsets import TxnOffsetHandler
from .users import UserHandlers


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerServices:
    """What handlers work with. The remote ones are None on a broker without a tier, `controllers` where there are none:
    nothing is passed on then.
    """

    config: BrokerConfig
    view: ClusterView
    hosted: HostedPartitions
    rng: Random
    now_ms: WallClock
    groups: GroupCoordinator
    remote_reads: RemoteReads | None
    remote_offsets: RemoteOffsets | None
    controllers: ControllerChannel | None
    log_dirs: LogDirHandler
    throttles: ReplicationThrottles
    transactions: Transactions
    shares: ShareCoordinator
    markers: TransactionMarkerHandler
    share_records: ShareHandlers | None = None
    quotas: FetchQuota | None = None
    is_ongoing: IsOngoing | None = None
    """Verifies transactions in the place of their coordinators, None where these do."""
    broker_listener: str | None = None
    """The inter-broker listener, None if clients use it too."""


def handler_table(services: HandlerServices) -> dict[int, Handler]:
    """ApiVersions is answered by the listener, from this table."""
    config, view, hosted = services.config, services.view, services.hosted
    cluster = ClusterHandlers(view, config.node_id, hosted.leads)
    hosted.on_role_change(cluster.role_changed)
    configs = ConfigHandlers(view, config)
    sessions = FetchSessionCache(
        draw_id=lambda: services.rng.randint(1, SESSION_ID_MAX),
        slots=config.max_incremental_fetch_session_cache_slots,
    )
    fetch = FetchHandler(
        hosted,
        sessions,
        services.remote_reads,
        max_bytes=config.fetch_max_bytes,
        throttle=services.throttles.leader,
        quota=services.quotas,
        select=load_replica_selector(config),
    )
    offsets = OffsetHandlers(
        hosted, services.remote_offsets, search_timeout_ms=config.remote_list_offsets_request_timeout_ms
    )
    users = UserHandlers(view, has_authorizer=config.authorizer.is_configured)
    return {
        ApiKey.PRODUCE: ProduceHandler(
            hosted,
            broker_listener=services.broker_listener,
            is_ongoing=services.is_ongoing or none_ongoing,
            verifier=services.transactions.verifier if services.is_ongoing is None else None,
        ).produce,
        ApiKey.FETCH: fetch.fetch,
        ApiKey.LIST_OFFSETS: offsets.list_offsets,
        ApiKey.METADATA: cluster.metadata,
        ApiKey.DELETE_RECORDS: DeleteRecordsHandler(hosted).delete_records,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
        ApiKey.WRITE_TXN_MARKERS: services.markers.write_txn_markers,
        ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
        ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: users.describe_scram,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: users.describe_quotas,
        ApiKey.DESCRIBE_ACLS: users.describe_acls,
        ApiKey.ALTER_REPLICA_LOG_DIRS: services.log_dirs.alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: services.log_dirs.describe_log_dirs,
        **_group_handlers(services),
        **_transaction_handlers(services),
        **_share_handlers(services),
        **_share_record_handlers(services.share_records),
        **_forwarded(services),
    }


def _share_record_handlers(handlers: ShareHandlers | None) -> dict[int, Handler]:
    if handlers is None:
        return {}
    return {ApiKey.SHARE_FETCH: handlers.share_fetch, ApiKey.SHARE_ACKNOWLEDGE: handlers.share_acknowledge}


def _forwarded(services: HandlerServices) -> dict[int, Handler]:
    """What the active controller answers."""
    if services.controllers is None:
        return {}
    forwarding = Forwarding(services.controllers, services.config.request_timeout_ms / 1000)
    groups = GroupConfigHandlers(services.view, services.config, forwarding)
    return {
        **forwarding.table(),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: groups.alter,
        ApiKey.ALTER_CONFIGS: groups.alter,
    }


def _group_handlers(services: HandlerServices) -> dict[int, Handler]:
    members = GroupHandlers(services.groups, services.rng)
    offsets = OffsetCommitHandlers(services.groups, services.now_ms)
    admin = GroupAdminHandlers(services.groups)
    consumers = ConsumerGroupHandlers(services.groups, services.rng)
    return {
        ApiKey.FIND_COORDINATOR: CoordinatorHandler(
            services.groups, services.transactions.coordinator, services.shares
        ).find_coordinator,
        ApiKey.JOIN_GROUP: members.join_group,
        ApiKey.SYNC_GROUP: members.sync_group,
        ApiKey.HEARTBEAT: members.heartbeat,
        ApiKey.LEAVE_GROUP: members.leave_group,
        ApiKey.OFFSET_COMMIT: offsets.offset_commit,
        ApiKey.OFFSET_FETCH: offsets.offset_fetch,
        ApiKey.OFFSET_DELETE: offsets.offset_delete,
        ApiKey.LIST_GROUPS: admin.list_groups,
        ApiKey.DESCRIBE_GROUPS: admin.describe_groups,
        ApiKey.DELETE_GROUPS: admin.delete_groups,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumers.heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumers.describe,
    }


def _transaction_handlers(services: HandlerServices) -> dict[int, Handler]:
    parts = services.transactions
    transactions = TransactionHandlers(services.view, parts.ids, parts.coordinator, services.groups)
    admin = TransactionAdminHandlers(services.hosted, parts.coordinator, services.now_ms)
    return {
        ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
        ApiKey.END_TXN: transactions.end_txn,
        ApiKey.TXN_OFFSET_COMMIT: TxnOffsetHandler(services.groups, parts.verifier, services.now_ms).txn_offset_commit,
        ApiKey.DESCRIBE_TRANSACTIONS: admin.describe_transactions,
        ApiKey.LIST_TRANSACTIONS: admin.list_transactions,
        ApiKey.DESCRIBE_PRODUCERS: admin.describe_producers,
    }


def _share_handlers(services: HandlerServices) -> dict[int, Handler]:
    state = ShareStateHandlers(services.shares)
    groups = ShareGroupHandlers(services.groups, services.hosted)
    return {
        ApiKey.SHARE_GROUP_HEARTBEAT: groups.heartbeat,
        ApiKey.SHARE_GROUP_DESCRIBE: groups.describe,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: groups.describe_offsets,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: groups.alter_offsets,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: groups.delete_offsets,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: state.initialize,
        ApiKey.READ_SHARE_GROUP_STATE: state.read,
        ApiKey.WRITE_SHARE_GROUP_STATE: state.write,
        ApiKey.DELETE_SHARE_GROUP_STATE: state.delete,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: state.summarize,
    }
