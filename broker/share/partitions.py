"""The share-partitions of one broker, by group and partition, and the sessions of their members.

| what | ends |
|---|---|
| a share-partition | with the leadership of its partition; once no session has it and nothing is locked |
| a session | when its member says so, or its connection ends |
| the locks of a member | with its session; each after its time |

A member that closes its session in order gives back what it has not used: that delivery does not count. One whose
connection is lost may have died of a record: that delivery counts (docs/divergence.md).

It is known of each session where it has acquired something, so that its end looks there only; and within the loop's
share. Where the member has acquired again meanwhile, under its next session, what it had is locked until that ends too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.net import Slices
from ..replicas.partition import Partition
from .core.partition import SharePartition
from .core.sessions import ConnectionKey, SessionChanges, SessionKey, SharedPartition, ShareSession, ShareSessions
from .live import FirstOffset, LiveSharePartition
from .metrics import ShareCounters
from .persister import LeaderPersister, ShareKey
from .settings import GroupShareSettingsOf

ENDED_AT_ONCE: Final = 50
"""The share-partitions of sessions that have ended which are seen to at once; the others have their turns."""
END_WEIGHT: Final = 100
"""What one of them costs on the loop, in elements of `pace`."""
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
        self._held: dict[SessionKey, dict[ShareKey, LiveSharePartition]] = {}
        """Where the member of a session may have something locked; `LiveSharePartition.holders` is the reverse."""
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
        for member_id in live.holders:
            self._held.get(SessionKey(live.key.group_id, member_id), {}).pop(live.key, None)

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
            if session is not None and self.sessions.find(key) is None:
                self._end([self._ending(session, was_given=True)])
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
            self._leave(ShareKey(group_id, *partition))

    def _leave(self, key: ShareKey) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]
            live = self._live.get(key)
            if live is not None:
                self._drop_if_unused(live)

    def note_held(self, key: SessionKey, live: LiveSharePartition) -> None:
        """A member has acquired something."""
        if self.sessions.find(key) is not None and self._live.get(live.key) is live:
            self._held.setdefault(key, {})[live.key] = live
            live.holders.add(key.member_id)

    def end_session(self, key: SessionKey, *, was_given: bool) -> None:
        """Close a member's session, and give up what it has locked, in any partition of the group."""
        self._end_all([key], was_given=was_given)

    def connection_ended(self, connection: ConnectionKey) -> None:
        """Close the sessions of a connection that has ended."""
        self._end_all(self.sessions.of_connection(connection), was_given=True)

    def _end_all(self, keys: Iterable[SessionKey], *, was_given: bool) -> None:
        sessions = [session for key in keys if (session := self.sessions.close(key)) is not None]
        self._end([self._ending(session, was_given=was_given) for session in sessions])

    def _ending(self, session: ShareSession, *, was_given: bool) -> Iterator[None]:
        """Return the steps of the end of a session that is closed, one for each share-partition."""
        key, held = session.key, self._held.pop(session.key, {})
        for live in held.values():
            live.holders.discard(key.member_id)

        def release(live: LiveSharePartition) -> None:
            if live.key not in self._held.get(key, ()):
                live.release(key.member_id, was_given=was_given)

        partitions = (ShareKey(key.group_id, *partition) for partition in session.partitions)
        return chain(map(release, held.values()), map(self._leave, partitions))

    def _end(self, endings: Iterable[Iterator[None]]) -> None:
        steps = chain.from_iterable(endings)
        if len(list(islice(steps, ENDED_AT_ONCE))) == ENDED_AT_ONCE:
            task = asyncio.create_task(_run(steps), name="end-share-sessions")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _drop_if_unused(self, live: LiveSharePartition) -> None:
        if live.key not in self._users and live.is_idle and self._live.get(live.key) is live:
            self._close(live, _not_led(live.key))


async def _run(steps: Iterator[None]) -> None:
    async for _ in Slices(steps, weight=END_WEIGHT):
        pass


def _discard(index: dict[TopicPartition, dict[ShareKey, None]], name: TopicPartition, key: ShareKey) -> None:
    keys = index[name]
    del keys[key]
    if not keys:
        del index[name]


def _not_led(key: ShareKey) -> KafkaError:
    return KafkaError(ErrorCode.not_leader_or_follower, f"{key} is no longer led here")
