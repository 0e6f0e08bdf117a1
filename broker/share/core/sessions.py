"""The share sessions of one broker: what each member of a group fetches here, and the epoch that comes next.

    epoch 0 --> open: the partitions of the request --> epochs 1, 2, ...: what changes --> epoch -1: closed
                                                    \\--> its connection ends: closed

| the request | answer |
|---|---|
| epoch 0 with acknowledgements | INVALID_REQUEST |
| epoch 0 in ShareAcknowledge | INVALID_SHARE_SESSION_EPOCH |
| an epoch but 0, and no session | SHARE_SESSION_NOT_FOUND |
| another epoch than the next | INVALID_SHARE_SESSION_EPOCH |
| as many sessions or partitions as allowed | SHARE_SESSION_LIMIT_REACHED |

An error of a partition that was reported is not reported again for `ERROR_AGAIN_S`, unless it is another one, or the
member names the partition again: a fetch that finds nothing else waits.

A member that opens a session again leaves the one before; what it has locked stays locked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from ....protocol import ErrorCode, KafkaError

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
PARTITIONS_MAX: Final = 200_000
"""The partitions of all sessions together."""
SESSION_PARTITIONS_MAX: Final = 10_000
"""The partitions of one session: each of its fetches looks at all of them."""
MEMBER_ID_SIZE_MAX: Final = 128
ERROR_AGAIN_S: Final = 1.0
"""A member whose metadata was old when an error was reported has to request newer."""


class SessionKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class ConnectionKey(NamedTuple):
    """A connection of one listener."""

    listener: str
    number: int


class SharedPartition(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: UUID
    number: int


class SessionChanges(NamedTuple):
    """What the request of a session changes. `acknowledges`: it has acknowledgements too."""

    wanted: Collection[SharedPartition] = ()
    forgotten: Collection[SharedPartition] = ()
    acknowledges: bool = False


class ShareSession:
    """One session; `epoch` is that of the next request."""

    __slots__ = ("_reported", "connection", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection: ConnectionKey, partitions: Iterable[SharedPartition]) -> None:
        self.key = key
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[SharedPartition, None] = dict.fromkeys(partitions)
        self._reported: dict[SharedPartition, tuple[ErrorCode, float]] = {}
        """The errors that were reported to the member, and when each has to be again."""

    def change(self, wanted: Iterable[SharedPartition], forgotten: Iterable[SharedPartition]) -> None:
        """Take in what a request names."""
        for partition in wanted:
            self.partitions[partition] = None
            self._reported.pop(partition, None)
        for partition in forgotten:
            self.partitions.pop(partition, None)
            self._reported.pop(partition, None)

    def reported_until_s(self, partition: SharedPartition, code: ErrorCode, now_s: float) -> float | None:
        """Return until when an error need not be reported; None if it has to be now."""
        reported, until_s = self._reported.get(partition, (None, now_s))
        return until_s if reported is code and now_s < until_s else None

    def note_reported(self, partition: SharedPartition, code: ErrorCode, now_s: float) -> None:
        """An error is reported to the member; `none`: it is over."""
        if code is ErrorCode.none:
            self._reported.pop(partition, None)
        elif partition in self.partitions:
            self._reported[partition] = code, now_s + ERROR_AGAIN_S

    def turn(self) -> list[SharedPartition]:
        """Return the partitions, of which another one is the first at each request."""
        partitions = list(self.partitions)
        first = self.epoch % len(partitions) if partitions else 0
        return partitions[first:] + partitions[:first]


class ShareSessions:
    """All sessions, at most `sessions_max`."""

    def __init__(self, sessions_max: int) -> None:
        self.sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connection: dict[ConnectionKey, dict[SessionKey, None]] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions of all sessions."""
        return self._partitions

    def find(self, key: SessionKey) -> ShareSession | None:
        """Return the member's session."""
        return self._sessions.get(key)

    def begin_fetch(
        self, key: SessionKey, epoch: int, connection: ConnectionKey, changes: SessionChanges
    ) -> ShareSession:
        """Return the session of a ShareFetch, with what the request changes. Raise KafkaError as in the table."""
        wanted, forgotten, acknowledges = changes
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise KafkaError(
                    ErrorCode.invalid_request, "a ShareFetch with epoch 0 opens a session: it acknowledges nothing"
                )
            return self._open(key, connection, wanted)
        session = self._known(key)
        if epoch == FINAL_EPOCH:
            return session
        self._check_epoch(session, epoch)
        added = sum(1 for partition in dict.fromkeys(wanted) if partition not in session.partitions)
        self._check_room(len(session.partitions) + added, self._partitions + added)
        before = len(session.partitions)
        session.change(wanted, forgotten)
        self._partitions += len(session.partitions) - before
        self._continue(session, connection)
        return session

    def begin_acknowledge(self, key: SessionKey, epoch: int, connection: ConnectionKey) -> ShareSession:
        """Return the session of a ShareAcknowledge. Raise KafkaError as in the table."""
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.invalid_share_session_epoch, "a ShareAcknowledge does not open a session")
        session = self._known(key)
        if epoch != FINAL_EPOCH:
            self._check_epoch(session, epoch)
            self._continue(session, connection)
        return session

    def close(self, key: SessionKey) -> ShareSession | None:
        """Forget a session; return it if there was one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            self._leave_connection(session)
        return session

    def of_connection(self, connection: ConnectionKey) -> list[SessionKey]:
        """Return whose sessions are on a connection."""
        return list(self._of_connection.get(connection, ()))

    def _open(self, key: SessionKey, connection: ConnectionKey, wanted: Collection[SharedPartition]) -> ShareSession:
        if not 0 < len(key.member_id) <= MEMBER_ID_SIZE_MAX:
            raise KafkaError(
                ErrorCode.invalid_request, f"a member id has 1 to {MEMBER_ID_SIZE_MAX} characters; Kafka's have 22"
            )
        self.close(key)
        session = ShareSession(key, connection, wanted)
        if len(self._sessions) >= self.sessions_max:
            raise self._too_many()
        self._check_room(len(session.partitions), self._partitions + len(session.partitions))
        self._sessions[key] = session
        self._partitions += len(session.partitions)
        self._of_connection.setdefault(connection, {})[key] = None
        return session

    def _check_room(self, of_session: int, of_all: int) -> None:
        if of_session > SESSION_PARTITIONS_MAX or of_all > PARTITIONS_MAX:
            raise self._too_many()

    def _too_many(self) -> KafkaError:
        return KafkaError(
            ErrorCode.share_session_limit_reached,
            f"this broker has {len(self._sessions)} share sessions with {self._partitions} partitions; allowed are "
            f"{self.sessions_max} (group.share.max.share.sessions) with {PARTITIONS_MAX}, "
            f"{SESSION_PARTITIONS_MAX} in one",
        )

    def _known(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(
                ErrorCode.share_session_not_found, f"member {key.member_id} of {key.group_id} has no session here"
            )
        return session

    @staticmethod
    def _check_epoch(session: ShareSession, epoch: int) -> None:
        if epoch != session.epoch:
            raise KafkaError(
                ErrorCode.invalid_share_session_epoch, f"epoch {session.epoch} is next in the session, not {epoch}"
            )

    def _continue(self, session: ShareSession, connection: ConnectionKey) -> None:
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        if session.connection != connection:
            self._leave_connection(session)
            session.connection = connection
            self._of_connection.setdefault(connection, {})[session.key] = None

    def _leave_connection(self, session: ShareSession) -> None:
        keys = self._of_connection[session.connection]
        del keys[session.key]
        if not keys:
            del self._of_connection[session.connection]
