"""The image: what the metadata log says of the whole cluster. `replay(record)` alone changes it.

Rules:
* The image is a function of the records that were replayed, in their order. It knows no time and no offsets.
* Records of an open transaction (KIP-868) wait; they count from its EndTransactionRecord on, or never. There may be
  thousands: they are taken up in steps, as those of a batch are, before the next record of the log.
* Records were decided by a controller and agreed on by a quorum. One that contradicts the image is an internal error:
  AssertionError with both.
* The indexes follow the registrations within the same call.
* A record of a type that the decisions do not need (quotas, rights, users) is kept for the next snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar
from uuid import UUID

from ...protocol.wire import Steps
from ...security import AclOperation
from ...security.core import (
    AclBinding,
    AclPermissionType,
    Acls,
    PatternType,
    ResourcePattern,
    ResourceType,
    ScramCredential,
    ScramCredentials,
    ScramType,
)
from .. import records as r
from ..records.brokers import FENCED, FENCING_UNCHANGED
from .client_quotas import ClientQuotas, entity_of
from .delta import ConfigResource, ImageDelta
from .indexes import PartitionIndexes
from .registrations import BrokerRegistration, PartitionKey, PartitionRegistration, TopicRegistration

METADATA_VERSION: Final = "metadata.version"
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
INTERNED_MAX: Final = 100_000
"""Distinct replica lists and the like that are shared; beyond that number, the cache is emptied."""

_Record = TypeVar("_Record", bound=r.MetadataRecord)
_Shared = TypeVar("_Shared", bound=tuple[object, ...])


class Interned:
    """Equal tuples as one object: 100,000 partitions have few different replica lists."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}

    def one(self, value: _Shared) -> _Shared:
        if len(self._known) >= INTERNED_MAX:
            self._known.clear()
        return self._known.setdefault(value, value)  # type: ignore[return-value]  # equal tuples have equal types

    def share(self, registration: PartitionRegistration) -> PartitionRegistration:
        one = self.one
        return registration._replace(
            replicas=one(registration.replicas),
            directories=one(registration.directories),
            isr=one(registration.isr),
        )


def may_pause_after(record: r.MetadataRecord) -> bool:
    """Return whether requests may see the image between this record of a batch and the next. Not among ACLs: a denial
    that goes before the permission beside it would let everybody in for a moment.
    """
    return not isinstance(record, r.AccessControlEntryRecord | r.RemoveAccessControlEntryRecord)


def taken_up_in_steps(
    image: MetadataImage,
    records: Iterable[r.MetadataRecord],
    take_up: Callable[[r.MetadataRecord], None],
    size: int,
) -> Steps[None]:
    """Give `take_up` the records that take effect with these, in steps of `size`; those that wait for the end of their
    transaction count as well.
    """
    left = size
    for record in records:
        effective = image.taking_effect(record)
        for each in effective:
            take_up(each)
            left -= 1
            if left <= 0 and may_pause_after(each):
                left = size
                yield
        if not effective:
            left -= 1
            if left <= 0:
                left = size
                yield


class MetadataImage:
    """One state of the cluster. Look at everything, change nothing but by `replay`."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, r.RegisterControllerRecord] = {}
        self.topics: dict[UUID, TopicRegistration] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.next_producer_id = 0
        self.indexes = PartitionIndexes()
        self.kept: dict[tuple[object, ...], r.MetadataRecord] = {}
        """Records that no decision here depends on, by what they are about."""
        self.scram = ScramCredentials()
        """The users' SCRAM credentials, which `kept` has as records."""
        self.acls = Acls()
        """The ACLs, which `kept` has as records."""
        self.quotas = ClientQuotas()
        """The quotas of clients, which `kept` has as records."""
        self.delta: ImageDelta | None = None
        """Set to an empty one, it collects what changes."""
        self._interned = Interned()
        self._transaction: list[r.MetadataRecord] | None = None

    # Looking.

    @property
    def metadata_version(self) -> int:
        """0 before the first records."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    def topic(self, name: str) -> TopicRegistration | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, key: PartitionKey) -> PartitionRegistration | None:
        topic = self.topics.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition)

    def registration(self, key: PartitionKey) -> PartitionRegistration:
        """Return the registration of a partition that is known to exist."""
        return self.topics[key.topic_id].partitions[key.partition]

    def name(self, key: PartitionKey) -> str:
        """Return the partition's name as messages show it."""
        topic = self.topics.get(key.topic_id)
        return f"{topic.name if topic else key.topic_id}-{key.partition}"

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """The configs of a resource; do not change it."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    def copy(self) -> MetadataImage:
        """Return a copy for reading, without indexes, which later replays into this one leave unchanged. Cheap."""
        other = MetadataImage()
        other.features = dict(self.features)
        other.brokers = dict(self.brokers)
        other.controllers = dict(self.controllers)
        other.topics = {topic_id: topic.copy() for topic_id, topic in self.topics.items()}
        other.topic_ids = dict(self.topic_ids)
        other.configs = {resource: dict(configs) for resource, configs in self.configs.items()}
        other.next_producer_id = self.next_producer_id
        other.kept = dict(self.kept)
        return other

    # Changing.

    def replay_all(self, records: Iterable[r.MetadataRecord]) -> None:
        for record in records:
            self.replay(record)

    def replay(self, record: r.MetadataRecord) -> None:
        """Take up one record of the log, and all of a transaction with its end."""
        for each in self.taking_effect(record):
            self.take_up(each)

    def take_up(self, record: r.MetadataRecord) -> None:
        """Change the image by a record that `taking_effect` returned."""
        _REPLAY[type(record)](self, record)

    def taking_effect(self, record: r.MetadataRecord) -> Sequence[r.MetadataRecord]:
        """Return the records that take effect with this one of the log: itself, none while a transaction is open, all
        of the transaction with its end. Take up each before the next record of the log.
        """
        if self._transaction is None and not isinstance(record, _TRANSACTION_RECORDS):
            return (record,)
        waiting = self._transaction
        match record:
            case r.BeginTransactionRecord():
                assert waiting is None, (record, len(waiting or ()))
                self._transaction = []
            case r.EndTransactionRecord():
                assert waiting is not None, record
                self._transaction = None
                return waiting
            case r.AbortTransactionRecord():
                assert waiting is not None, record
                self._transaction = None
            case _:
                assert waiting is not None, record
                waiting.append(record)
        return ()

    def _register_broker(self, record: r.RegisterBrokerRecord) -> None:
        self._put_broker(BrokerRegistration.of_record(record))

    def _unregister_broker(self, record: r.UnregisterBrokerRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch, record)
        del self.brokers[broker.broker_id]
        if self.delta is not None:
            self.delta.brokers.add(broker.broker_id)

    def _fence_broker(self, record: r.FenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id_, record.epoch, record), fenced=True))

    def _unfence_broker(self, record: r.UnfenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id_, record.epoch, record), fenced=False))

    def _change_broker_registration(self, record: r.BrokerRegistrationChangeRecord) -> None:
        before = self._broker(record.broker_id, record.broker_epoch, record)
        is_same = record.fenced == FENCING_UNCHANGED
        self._put_broker(
            replace(
                before,
                fenced=before.fenced if is_same else record.fenced == FENCED,
                in_controlled_shutdown=before.in_controlled_shutdown or record.in_controlled_shutdown == 1,
                directories=record.log_dirs or before.directories,
                cordoned_directories=(
                    before.cordoned_directories if record.cordoned_log_dirs is None else record.cordoned_log_dirs
                ),
            )
        )

    def _broker(self, broker_id: int, epoch: int, record: r.MetadataRecord) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        assert broker is not None, record
        assert broker.epoch == epoch, (record, broker)
        return broker

    def _put_broker(self, broker: BrokerRegistration) -> None:
        self.brokers[broker.broker_id] = broker
        if self.delta is not None:
            self.delta.brokers.add(broker.broker_id)

    def _register_controller(self, record: r.RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = record

    def _add_topic(self, record: r.TopicRecord) -> None:
        assert record.topic_id is not None, record
        assert record.name not in self.topic_ids, (record, self.topic_ids[record.name])
        assert record.topic_id not in self.topics, (record, self.topics[record.topic_id].name)
        self.topics[record.topic_id] = TopicRegistration(record.name, record.topic_id)
        self.topic_ids[record.name] = record.topic_id
        if self.delta is not None:
            self.delta.partitions.setdefault(record.topic_id, set())

    def _remove_topic(self, record: r.RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id, record)
        self._remove_partitions_from(topic, 0)
        del self.topics[topic.topic_id]
        del self.topic_ids[topic.name]
        resource = ConfigResource(TOPIC_RESOURCE, topic.name)
        self.configs.pop(resource, None)
        if self.delta is not None:
            self.delta.partitions.pop(topic.topic_id, None)
            self.delta.removed_topics[topic.topic_id] = topic.name
            self.delta.configs.add(resource)

    def _remove_partitions(self, record: r.RemovePartitionsRecord) -> None:
        topic = self._topic(record.topic_id, record)
        assert 0 < record.count < len(topic.partitions), (record, len(topic.partitions))
        self._remove_partitions_from(topic, record.count)

    def _remove_partitions_from(self, topic: TopicRegistration, first: int) -> None:
        for number in [number for number in topic.partitions if number >= first]:
            self._put_partition(topic, number, None)

    def _add_partition(self, record: r.PartitionRecord) -> None:
        self._put_partition(
            self._topic(record.topic_id, record), record.partition_id, PartitionRegistration.of_record(record)
        )

    def _change_partition(self, record: r.PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id, record)
        before = topic.partitions.get(record.partition_id)
        assert before is not None, record
        self._put_partition(topic, record.partition_id, before.changed_by(record))

    def _clear_elr(self, record: r.ClearElrRecord) -> None:
        topic_id = self.topic_ids.get(record.topic_name)
        assert topic_id is not None or not record.topic_name, record
        for topic in self.topics.values() if topic_id is None else (self.topics[topic_id],):
            for number, before in topic.partitions.items():
                if before.elr or before.last_known_elr:
                    cleared = before._replace(elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1)
                    self._put_partition(topic, number, cleared)

    def _topic(self, topic_id: UUID | None, record: r.MetadataRecord) -> TopicRegistration:
        assert topic_id is not None, record
        assert topic_id in self.topics, record
        return self.topics[topic_id]

    def _put_partition(self, topic: TopicRegistration, number: int, after: PartitionRegistration | None) -> None:
        key = PartitionKey(topic.topic_id, number)
        before = topic.partitions.get(number)
        if after is None:
            del topic.partitions[number]
        else:
            after = self._interned.share(after)
            after.check(key)
            topic.partitions[number] = after
        self.indexes.update(key, before, after)
        if self.delta is not None:
            self.delta.partitions.setdefault(topic.topic_id, set()).add(number)

    def _set_config(self, record: r.ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = self.configs.setdefault(resource, {})
        if record.value is not None:
            configs[record.name] = record.value
        else:
            configs.pop(record.name, None)
        if not configs:
            del self.configs[resource]
        if self.delta is not None:
            self.delta.configs.add(resource)

    def _set_feature(self, record: r.FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level
        if self.delta is not None:
            self.delta.features.add(record.name)

    def _set_producer_ids(self, record: r.ProducerIdsRecord) -> None:
        assert record.next_producer_id >= self.next_producer_id, (record, self.next_producer_id)
        self.next_producer_id = record.next_producer_id

    def _set_quota(self, record: r.ClientQuotaRecord) -> None:
        entity = entity_of((part.entity_type, part.entity_name) for part in record.entity)
        key = (r.ClientQuotaRecord, entity, record.key)
        if record.remove:
            self.kept.pop(key, None)
            self.quotas.remove(entity, record.key)
        else:
            self.kept[key] = record
            self.quotas.put(entity, record.key, record.value)

    def _keep(self, record: r.MetadataRecord) -> None:
        self.kept[_subject(record)] = record

    def _forget(self, record: r.MetadataRecord) -> None:
        self.kept.pop(_subject(record), None)

    def _set_scram(self, record: r.UserScramCredentialRecord) -> None:
        self._keep(record)
        if record.mechanism in _SCRAM_TYPES:
            credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
            self.scram.put(record.name, ScramType(record.mechanism), credential)

    def _remove_scram(self, record: r.RemoveUserScramCredentialRecord) -> None:
        self._forget(record)
        if record.mechanism in _SCRAM_TYPES:
            self.scram.remove(record.name, ScramType(record.mechanism))

    def _set_acl(self, record: r.AccessControlEntryRecord) -> None:
        assert record.id_ is not None, record
        self._keep(record)
        acl = AclBinding(
            ResourcePattern(ResourceType(record.resource_type), record.resource_name, PatternType(record.pattern_type)),
            record.principal,
            record.host,
            AclOperation(record.operation),
            AclPermissionType(record.permission_type),
        )
        self.acls.put(record.id_, acl)

    def _remove_acl(self, record: r.RemoveAccessControlEntryRecord) -> None:
        self._forget(record)
        if record.id_ is not None:
            self.acls.remove(record.id_)

    def _pass(self, record: r.MetadataRecord) -> None:
        assert isinstance(record, r.NoOpRecord), record


def _subject(record: r.MetadataRecord) -> tuple[object, ...]:
    """What a kept record, or the one that removes it, is about."""
    match record:
        case r.AccessControlEntryRecord() | r.RemoveAccessControlEntryRecord():
            return (r.AccessControlEntryRecord, record.id_)
        case r.UserScramCredentialRecord() | r.RemoveUserScramCredentialRecord():
            return (r.UserScramCredentialRecord, record.name, record.mechanism)
        case r.DelegationTokenRecord() | r.RemoveDelegationTokenRecord():
            return (r.DelegationTokenRecord, record.token_id)
    return (type(record),)


_SCRAM_TYPES: Final = frozenset(map(int, ScramType))
_TRANSACTION_RECORDS: Final = (r.BeginTransactionRecord, r.EndTransactionRecord, r.AbortTransactionRecord)


def _row(
    kind: type[_Record], replay: Callable[[MetadataImage, _Record], None]
) -> tuple[type[r.MetadataRecord], Callable[..., None]]:
    """Return a row of the table; its types say that the method takes records of this type."""
    return kind, replay


_REPLAY: Final = dict(
    (
        _row(r.RegisterBrokerRecord, MetadataImage._register_broker),
        _row(r.UnregisterBrokerRecord, MetadataImage._unregister_broker),
        _row(r.FenceBrokerRecord, MetadataImage._fence_broker),
        _row(r.UnfenceBrokerRecord, MetadataImage._unfence_broker),
        _row(r.BrokerRegistrationChangeRecord, MetadataImage._change_broker_registration),
        _row(r.RegisterControllerRecord, MetadataImage._register_controller),
        _row(r.TopicRecord, MetadataImage._add_topic),
        _row(r.RemoveTopicRecord, MetadataImage._remove_topic),
        _row(r.RemovePartitionsRecord, MetadataImage._remove_partitions),
        _row(r.PartitionRecord, MetadataImage._add_partition),
        _row(r.PartitionChangeRecord, MetadataImage._change_partition),
        _row(r.ClearElrRecord, MetadataImage._clear_elr),
        _row(r.ConfigRecord, MetadataImage._set_config),
        _row(r.FeatureLevelRecord, MetadataImage._set_feature),
        _row(r.ProducerIdsRecord, MetadataImage._set_producer_ids),
        _row(r.ClientQuotaRecord, MetadataImage._set_quota),
        _row(r.AccessControlEntryRecord, MetadataImage._set_acl),
        _row(r.UserScramCredentialRecord, MetadataImage._set_scram),
        _row(r.DelegationTokenRecord, MetadataImage._keep),
        _row(r.ZkMigrationStateRecord, MetadataImage._keep),
        _row(r.RemoveAccessControlEntryRecord, MetadataImage._remove_acl),
        _row(r.RemoveUserScramCredentialRecord, MetadataImage._remove_scram),
        _row(r.RemoveDelegationTokenRecord, MetadataImage._forget),
        _row(r.NoOpRecord, MetadataImage._pass),
    )
)
