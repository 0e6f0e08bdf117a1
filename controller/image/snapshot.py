"""An image as records: replayed into an empty image they give an equal one.

The level of metadata.version comes first, as every reader of a snapshot expects; then nodes, topics, configs, and what
no decision here depends on. Topics and partitions come in the order of names and numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..records import ConfigRecord, FeatureLevelRecord, MetadataRecord, ProducerIdsRecord, TopicRecord
from .image import METADATA_VERSION, MetadataImage
from .registrations import UNKNOWN_BROKER_EPOCH, PartitionKey

NOBODY: Final = -1


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Do not replay anything while this is being read."""
    assert not image.is_in_transaction, "the records that wait for the end of a transaction would be lost"
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for _, controller in sorted(image.controllers.items()):
        yield controller
    for _, broker in sorted(image.brokers.items()):
        yield broker.to_record()
    for _, topic_id in sorted(image.topic_ids.items()):
        topic = image.topics[topic_id]
        yield TopicRecord(name=topic.name, topic_id=topic_id)
        for number, registration in sorted(topic.partitions.items()):
            yield registration.to_record(PartitionKey(topic_id, number))
    for resource, configs in sorted(image.configs.items()):
        for key, value in sorted(configs.items()):
            yield ConfigRecord(resource_type=resource.resource_type, resource_name=resource.name, name=key, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(
            broker_id=NOBODY, broker_epoch=UNKNOWN_BROKER_EPOCH, next_producer_id=image.next_producer_id
        )
    yield from image.kept.values()
