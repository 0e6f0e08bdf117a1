"""The share-partitions of one broker, by group and partition, and the sessions of their members.

| what | ends |
|---|---|
| a share-partition | with the leadership of its partition; once no session has it and nothing is locked |
| a session | when its member says so, or its connection ends |
| the locks of a member | with its session; each after its time |

A member that closes its session in order gives back what it has not used: that delivery does not count. One whose
connection is lost may have died of a record: that delivery counts (docs/divergence.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ..replicas.partition import Partition
from .core.partition import SharePartition
from .core.sessions import ConnectionKey, SessionChanges, SessionKey, SharedPartition, ShareSession, ShareSessions
from .live import FirstOffset, LiveSharePartition
from .metrics import ShareCounters
from .persister import LeaderPersister, ShareKey
from .settings import GroupShareSettingsOf

IndexT = TypeVar("IndexT", TopicPartition, str)
LIVE_MAX: Final = 50_000
"""The number of share-partitions that are loaded."""


class SharePartitions:
    """Notified of roles (`RoleListener`) and of connections that have ended."""

    def __init__(
        self,
        persister: LeaderPersister,
        settings_of: GroupShareSettingsOf,
        first_offset: FirstOffset,
        *,
        sessions_max: int,
    ) -> None:
        self.sessions = ShareSessions(sessions_max)
        self.counters = ShareCounters()
        self.settings_of = settings_of
        self._persister = persister
        self._first_offset = first_offset
        self._live: dict[ShareKey, LiveSharePartition] = {}
        self._of_partition: dict[TopicPartition, dict[ShareKey, None]] = {}
        self._of_group: dict[str, dict[ShareKey, None]] = {}
        self._users: dict[ShareKey, int] = {}
        """How many sessions have a share-partition."""
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def machines(self) -> Iterator[SharePartition]:
        """What is under way, where that is known."""
        return (live.machine for live in self._live.values() if live.machine is not None)

    # Share-partitions.

    def find(self, key: ShareKey) -> LiveSharePartition | None:
        """Return a share-partition that is loaded, or is being loaded."""
        return self._live.get(key)

    def of(self, key: ShareKey, partition: Partition) -> LiveSharePartition:
        """Return the share-partition of a partition that is led here; it is loaded unless it is. Raise KafkaError."""
        live = self._live.get(key)
        if live is not None and live.partition is partition and live.leader_epoch == partition.leader().leader_epoch:
            live.settings = self.settings_of(key.group_id)
            return live
        if live is not None:
            self._close(live, _not_led(key))
        if len(self._live) >= LIVE_MAX:
            raise KafkaError(
                ErrorCode.coordinator_not_available, f"this broker has {LIVE_MAX} share-partitions loaded: try again"
            )
        live = LiveSharePartition(
            key,
            partition,
            self._persister,
            self.settings_of(key.group_id),
            self._first_offset,
            self.counters,
            on_closed=self._forget,
            on_settled=self._drop_if_unused,
        )
        self._live[key] = live
        self._of_partition.setdefault(partition.partition.topic_partition, {})[key] = None
        self._of_group.setdefault(key.group_id, {})[key] = None
        return live

    def led(self, partition: Partition) -> None:
        """Begin a leadership: what this process had is of another one."""
        self.resigned(partition.partition.topic_partition)

    def resigned(self, partition: TopicPartition) -> None:
        """End a leadership: what waits fails, and what is locked is the next leader's to deliver."""
        for key in list(self._of_partition.get(partition, ())):
            self._close(self._live[key], _not_led(key))

    async def close(self) -> None:
        """End all share-partitions."""
        for live in list(self._live.values()):
            self._close(live, _not_led(live.key))
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close(self, live: LiveSharePartition, reason: KafkaError) -> None:
        task = asyncio.create_task(live.close(reason), name=f"close-{live.key}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        self._forget(live)

    def _forget(self, live: LiveSharePartition) -> None:
        if self._live.get(live.key) is not live:
            return
        del self._live[live.key]
        _discard(self._of_partition, live.partition.partition.topic_partition, live.key)
        _discard(self._of_group, live.key.group_id, live.key)

    # Sessions.

    def begin_fetch(
        self, key: SessionKey, epoch: int, connection: ConnectionKey, changes: SessionChanges
    ) -> ShareSession:
        """As `ShareSessions.begin_fetch`; what a session has is kept loaded."""
        session = self.sessions.find(key)
        before = [] if session is None else list(session.partitions)
        try:
            session = self.sessions.begin_fetch(key, epoch, connection, changes)
        except KafkaError:
            if before and self.sessions.find(key) is None:
                self._use(key.group_id, before, ())
            raise
        if before != list(session.partitions):
            self._use(key.group_id, before, session.partitions)
        return session

    def _use(self, group_id: str, before: Iterable[SharedPartition], after: Iterable[SharedPartition]) -> None:
        """Note that the partitions of a session were `before`, and are `after` now."""
        for partition in after:
            key = ShareKey(group_id, *partition)
            self._users[key] = self._users.get(key, 0) + 1
        for partition in before:
            key = ShareKey(group_id, *partition)
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                live = self._live.get(key)
                if live is not None:
                    self._drop_if_unused(live)

    def end_session(self, key: SessionKey, *, was_given: bool) -> None:
        """Close a member's session, and give up what it has locked, in any partition of the group."""
        session = self.sessions.close(key)
        if session is None:
            return
        for each in list(self._of_group.get(key.group_id, ())):
            self._live[each].release(key.member_id, was_given=was_given)
        self._use(key.group_id, session.partitions, ())

    def connection_ended(self, connection: ConnectionKey) -> None:
        """Close the sessions of a connection that has ended."""
        for key in self.sessions.of_connection(connection):
            self.end_session(key, was_given=True)

    def _drop_if_unused(self, live: LiveSharePartition) -> None:
        if live.key not in self._users and live.is_idle and self._live.get(live.key) is live:
            self._close(live, _not_led(live.key))


def _discard(index: dict[IndexT, dict[ShareKey, None]], name: IndexT, key: ShareKey) -> None:
    keys = index[name]
    del keys[key]
    if not keys:
        del index[name]


def _not_led(key: ShareKey) -> KafkaError:
    return KafkaError(ErrorCode.not_leader_or_follower, f"{key} is no longer led here")
