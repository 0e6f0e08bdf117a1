"""Which replica a consumer had better read from (KIP-392): `replica.selector.class`. Pure.

    selector                    the consumer is sent to
    --------------------------  ---------------------------------------------------------------------------------------
    none, leader                no other broker: it reads from the leader
    rack-aware                  the leader, if that is in the consumer's rack or no follower that qualifies is; else the
                                follower of that rack whose log goes furthest, then which was caught up last, then
                                with the largest id

A follower qualifies if it is alive, in the ISR, holds the offset, and is not thin (it would read from the tier what the
leader has at hand). The leader chooses again with each fetch that comes to it; a client keeps to the answer until its
metadata are due, or the replica refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from ...light_dataclass import dataclass
from ...plugin_options import PluginConfig


@dataclass(frozen=True, slots=True)
class ReadReplica:
    """A replica that qualifies. `behind_ms`: since it was last caught up, 0 for the leader."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_ms: int


ReplicaSelector = Callable[[str, ReadReplica, Sequence[ReadReplica]], ReadReplica]
"""The port: (consumer's rack, leader, followers that qualify) -> one of them. It is called for each fetch of a consumer
that knows its rack, on the event loop: it must not block. A plugin is a class with `Config` and this `__call__`.
"""


@dataclass(frozen=True, slots=True)
class LeaderSelector:
    """Consumers read from the leader."""

    Config: ClassVar = PluginConfig
    config: PluginConfig

    def __call__(self, _: str, leader: ReadReplica, __: Sequence[ReadReplica]) -> ReadReplica:
        return leader


@dataclass(frozen=True, slots=True)
class RackAwareSelector:
    """Consumers read from a replica in their rack (KIP-392)."""

    Config: ClassVar = PluginConfig
    config: PluginConfig

    def __call__(self, rack: str, leader: ReadReplica, followers: Sequence[ReadReplica]) -> ReadReplica:
        if not rack or leader.rack == rack:
            return leader
        near = [follower for follower in followers if follower.rack == rack]
        return max(near, key=_freshness, default=leader)


def _freshness(replica: ReadReplica) -> tuple[int, int, int]:
    return replica.log_end_offset, -replica.behind_ms, replica.broker_id


select_leader: Final = LeaderSelector(PluginConfig())
select_rack_aware: Final = RackAwareSelector(PluginConfig())
KAFKAS_SELECTORS: Final[Mapping[str, str]] = {
    "org.apache.kafka.common.replica.LeaderSelector": "leader",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": "rack-aware",
}
"""The names of our selectors by Kafka's class names."""
