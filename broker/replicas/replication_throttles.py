"""The replication throttles of one broker, as the cluster's dynamic configs have them now.

    broker config                             topic config                               holds back
    ----------------------------------------  -----------------------------------------  ----------------------------
    leader.replication.throttled.rate         leader.replication.throttled.replicas      answers to followers
    follower.replication.throttled.rate       follower.replication.throttled.replicas    fetches of this broker

The arithmetic is `fetcher.core.replication_quota`. A list that cannot be read throttles nothing and is reported once:
it can only come from a file that was edited by hand, because the controller rejects it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...fetcher.core import ReplicationQuota, throttled_partitions
from ...protocol import TopicIdPartition
from ..cluster.topic_config import TopicConfigs
from ..cluster.view import ClusterView

LEADER_KEY: Final = "leader.replication.throttled.replicas"
FOLLOWER_KEY: Final = "follower.replication.throttled.replicas"
NOTHING: Final[frozenset[int]] = frozenset()

_log = logging.getLogger(__name__)


class Throttle:
    """One direction: the broker's quota, and which replicas it is for."""

    def __init__(self, view: ClusterView, broker_id: int, key: str, now_s: Callable[[], float]) -> None:
        self._view = view
        self._broker_id = broker_id
        self._key = key
        self._now_s = now_s
        self._quota = ReplicationQuota(now_s())
        self._reported: set[str] = set()

    def limit(self, bytes_per_s: int) -> None:
        self._quota.limit(bytes_per_s, self._now_s())

    @property
    def is_limited(self) -> bool:
        return self._quota.is_limited

    def applies_to(self, topic: str, partition: int) -> bool:
        if not self._quota.is_limited:
            return False
        image = self._view.image.topics.get(topic)
        text = None if image is None else image.configs.get(self._key)
        if not text:
            return False
        throttled = self._parsed(topic, text)
        return throttled is None or partition in throttled

    def _parsed(self, topic: str, text: str) -> frozenset[int] | None:
        try:
            return throttled_partitions(text, self._broker_id)
        except ValueError as error:
            if text not in self._reported:
                self._reported.add(text)
                _log.error("topic %s: %s throttles nothing: %s", topic, self._key, error)
            return NOTHING

    def wait_s(self, partition: TopicIdPartition) -> float:
        """Return how long to wait in seconds; 0 if this replica is not throttled, or may continue."""
        if not self.applies_to(partition.topic, partition.partition):
            return 0.0
        return self._quota.wait_s(self._now_s())

    def fetched(self, partition: TopicIdPartition, size_bytes: int) -> None:
        """These bytes of a replica went to or came from another broker."""
        if self._quota.is_limited and self.applies_to(partition.topic, partition.partition):
            self._quota.record(size_bytes, self._now_s())


class ReplicationThrottles:
    """Both directions; obeys changes of the cluster's image at once."""

    def __init__(self, view: ClusterView, configs: TopicConfigs, broker_id: int, now_s: Callable[[], float]) -> None:
        self.leader = Throttle(view, broker_id, LEADER_KEY, now_s)
        self.follower = Throttle(view, broker_id, FOLLOWER_KEY, now_s)
        self._configs = configs
        self._obey()
        view.subscribe(lambda old, new: self._obey() if old.broker_configs is not new.broker_configs else None)

    def _obey(self) -> None:
        config = self._configs.broker_config()
        self.leader.limit(config.leader_replication_throttled_rate)
        self.follower.limit(config.follower_replication_throttled_rate)
