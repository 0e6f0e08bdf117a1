"""The metadata log as the broker sees it: Kafka's records in, immutable `ClusterImage`s out. Pure.

The log's image (`controller.image.image`) is one mutable value; a broker's parts work with images that do not change
under their hands. So each batch gives a new `ClusterImage` that shares with the one before what the batch did not
touch. A batch may be of thousands of records and a snapshot of all: they are taken up in steps, and the new image is
there at once when the last one is done.

ACLs, SCRAM credentials and quotas are not copied: the image has the log's own, which change record by record. ACLs are
taken up without a pause among them (`taken_up_in_steps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from ...controller import (
    BROKER_RESOURCE,
    EARLIEST_PENDING_UPLOAD_LEVEL,
    METADATA_VERSION,
    TOPIC_RESOURCE,
    ConfigResource,
    ImageDelta,
    MetadataImage,
    TopicRegistration,
    taken_up_in_steps,
)
from ...controller import BrokerRegistration as RegisteredBroker
from ...controller import PartitionRegistration as RegisteredPartition
from ...controller.records import decode_record
from ...protocol import interned_id
from ...protocol.wire import ResourceType, Steps, run_to_end
from ...security import SecurityProtocol
from .cluster_image import BrokerRegistration, ClusterImage, EndPoint, PartitionRegistration, TopicImage

_PROTOCOLS = frozenset(map(int, SecurityProtocol))
STEP_RECORDS: Final = 250
"""Records, or partitions of an image, between two steps."""
DEFAULT_BROKER = "default"
"""Under which name `ClusterImage.broker_configs` has what holds for all brokers."""


class MetadataView:
    """`cluster` is the image after everything that was applied."""

    def __init__(self, cluster_id: str, listener_name: str) -> None:
        self._listener_name = listener_name
        self.metadata = MetadataImage()
        metadata = self.metadata
        self.cluster = ClusterImage(
            cluster_id, {}, {}, {}, features={}, scram=metadata.scram, acls=metadata.acls, quotas=metadata.quotas
        )

    def apply(self, records: Iterable[bytes]) -> bool:
        """Take up the records of a committed batch; whether anything changed. MetadataRecordError."""
        return run_to_end(self.apply_steps(records))

    def load(self, batches: Iterable[Iterable[bytes]]) -> None:
        """Forget everything, and take up a snapshot."""
        run_to_end(self.load_steps(batches))

    def apply_steps(self, records: Iterable[bytes], size: int = STEP_RECORDS) -> Steps[bool]:
        """Do what `apply` does in steps of `size` records; `cluster` is the image before until the last."""
        delta = self.metadata.delta = ImageDelta()
        yield from _replayed(self.metadata, records, size)
        if delta.is_empty:
            return False
        self.cluster = yield from self._changed(self.metadata, self.cluster, delta, size)
        return True

    def load_steps(self, batches: Iterable[Iterable[bytes]], size: int = STEP_RECORDS) -> Steps[None]:
        """Do what `load` does in such steps."""
        metadata = MetadataImage()
        delta = metadata.delta = ImageDelta()
        yield from _replayed(metadata, chain.from_iterable(batches), size)
        nothing = ClusterImage(self.cluster.cluster_id, {}, {}, {}, features={})
        cluster = yield from self._changed(metadata, nothing, delta, size)
        self.metadata, self.cluster = metadata, cluster

    def _changed(
        self, metadata: MetadataImage, before: ClusterImage, delta: ImageDelta, size: int
    ) -> Steps[ClusterImage]:
        topics = yield from _topics(metadata, before.topics, delta, size)
        return ClusterImage(
            cluster_id=before.cluster_id,
            brokers=self._brokers(metadata, before.brokers, delta.brokers),
            topics=topics,
            broker_configs=_broker_configs(metadata, before.broker_configs, delta.configs),
            group_configs=_group_configs(metadata, before.group_configs, delta.configs),
            features=dict(metadata.features) if delta.features else before.features,
            scram=metadata.scram,
            acls=metadata.acls,
            quotas=metadata.quotas,
        )

    def _brokers(
        self, metadata: MetadataImage, before: Mapping[int, BrokerRegistration], changed: set[int]
    ) -> Mapping[int, BrokerRegistration]:
        if not changed:
            return before
        brokers = {broker_id: broker for broker_id, broker in before.items() if broker_id not in changed}
        for broker_id in changed:
            registered = metadata.brokers.get(broker_id)
            if registered is not None:
                brokers[broker_id] = _broker(registered, self._listener_name)
        return dict(sorted(brokers.items()))


def _replayed(metadata: MetadataImage, records: Iterable[bytes], size: int) -> Steps[None]:
    """Replay the records into the image, those of a transaction at its end."""
    decoded = (decode_record(value).record for value in records)
    yield from taken_up_in_steps(metadata, decoded, metadata.take_up, size)


def _topics(
    metadata: MetadataImage, before: Mapping[str, TopicImage], delta: ImageDelta, size: int
) -> Steps[Mapping[str, TopicImage]]:
    configured = {resource.name for resource in delta.configs if resource.resource_type == TOPIC_RESOURCE}
    if not (delta.partitions or delta.removed_topics or configured):
        return before
    topics = dict(before)
    for topic_id, name in delta.removed_topics.items():
        if name in topics and topics[name].topic_id == topic_id:
            del topics[name]
    left = size
    for topic_id, numbers in delta.partitions.items():
        topic = metadata.topics.get(topic_id)
        if topic is not None:
            topics[topic.name] = _topic(metadata, topic, topics.get(topic.name), numbers)
        left -= len(numbers)
        if left <= 0:
            left = size
            yield
    for name in sorted(configured & topics.keys()):
        topic = metadata.topic(name)
        if topic is not None:
            topics[name] = _topic(metadata, topic, topics[name], set())
    return topics


def _topic(
    metadata: MetadataImage, topic: TopicRegistration, before: TopicImage | None, numbers: set[int]
) -> TopicImage:
    known = before.partitions if before is not None and before.topic_id == topic.topic_id else {}
    partitions = dict(known)
    for number in numbers:
        registered = topic.partitions.get(number)
        if registered is None:
            partitions.pop(number, None)
        else:
            partitions[number] = _partition(registered)
    configs = metadata.config(TOPIC_RESOURCE, topic.name)
    return TopicImage(topic.name, interned_id(topic.topic_id), dict(configs), partitions)


def _broker_configs(
    metadata: MetadataImage, before: Mapping[str, Mapping[str, str]], changed: set[ConfigResource]
) -> Mapping[str, Mapping[str, str]]:
    names = {resource.name for resource in changed if resource.resource_type == BROKER_RESOURCE}
    if not names:
        return before
    configs = dict(before)
    for name in sorted(names):
        configs[name or DEFAULT_BROKER] = dict(metadata.config(BROKER_RESOURCE, name))
    return configs


def _group_configs(
    metadata: MetadataImage, before: Mapping[str, Mapping[str, str]], changed: set[ConfigResource]
) -> Mapping[str, Mapping[str, str]]:
    names = {resource.name for resource in changed if resource.resource_type == ResourceType.GROUP}
    if not names:
        return before
    configs = {**before, **{name: dict(metadata.config(ResourceType.GROUP, name)) for name in sorted(names)}}
    return {name: values for name, values in configs.items() if values}


def _broker(registered: RegisteredBroker, listener_name: str) -> BrokerRegistration:
    """Return the broker with the endpoint of the listener that is used here, else its first."""
    end_points = {end_point.name: end_point for end_point in reversed(registered.end_points)}
    end_point = end_points.get(listener_name) or next(iter(registered.end_points), None)
    return BrokerRegistration(
        id=registered.broker_id,
        host=end_point.host if end_point else "",
        port=end_point.port if end_point else 0,
        rack=registered.rack,
        directory_ids=tuple(directory for directory in registered.directories if directory is not None),
        fenced=registered.fenced,
        is_leaving=registered.in_controlled_shutdown,
        epoch=registered.epoch,
        end_points=tuple(
            EndPoint(item.name, item.host, item.port, SecurityProtocol(item.security_protocol))
            for item in registered.end_points
            if item.security_protocol in _PROTOCOLS
        ),
    )


def _partition(registered: RegisteredPartition) -> PartitionRegistration:
    return PartitionRegistration(
        leader=registered.leader,
        leader_epoch=registered.leader_epoch,
        partition_epoch=registered.partition_epoch,
        replicas=registered.replicas,
        isr=registered.isr,
        directories=registered.directories,
    )


def knows_pending_uploads(image: ClusterImage) -> bool:
    """Whether every broker of the cluster answers ListOffsets -6 (KIP-1023)."""
    return image.features is None or image.features.get(METADATA_VERSION, 0) >= EARLIEST_PENDING_UPLOAD_LEVEL
