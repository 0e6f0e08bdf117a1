"""The lines of a trace about the cluster's metadata: who is fenced, which topics went, how each partition stands."""

from __future__ import annotations

from collections.abc import Iterator

from ....broker.cluster.view import ClusterImage


def news(before: ClusterImage, after: ClusterImage) -> Iterator[str]:
    """What has changed between two images."""
    for broker_id, broker in after.brokers.items():
        old = before.brokers.get(broker_id)
        if old is None or old.fenced != broker.fenced:
            yield f"broker {broker_id} is {'fenced' if broker.fenced else 'unfenced'}"
    for topic in before.topics.values():
        if topic.topic_id not in after.topic_names:
            yield f"{topic.name} is deleted"
    for topic in after.topics.values():
        old_topic = before.topics.get(topic.name)
        known = old_topic.partitions if old_topic is not None and old_topic.topic_id == topic.topic_id else {}
        for number, now in topic.partitions.items():
            if known.get(number) != now:
                yield f"{topic.name}-{number} {now}"
