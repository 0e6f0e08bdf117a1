"""Which brokers have sent a heartbeat within `session_timeout_ms`, on the active controller.

A session begins when a broker registers, or for every registered broker when a controller becomes active, and lasts
`session_timeout_ms` from each heartbeat on. Only an unfenced broker can lose its session: a fenced one has nothing to
lose. All times are of the monotonic clock: a jump of the wall clock expires nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...light_dataclass import dataclass
from ..image.registrations import BrokerRegistration


@dataclass(slots=True)
class BrokerSession:
    """One broker's session. `controlled_shutdown_offset` is what every active broker must have replayed before this one
    may shut down; None until it asks to.
    """

    epoch: int
    last_contact_ms: int
    metadata_offset: int = -1
    controlled_shutdown_offset: int | None = None


class BrokerSessions:
    """The sessions by broker. `active_since_ms` is when this controller became active."""

    __slots__ = ("_sessions", "active_since_ms")

    def __init__(self) -> None:
        self._sessions: dict[int, BrokerSession] = {}
        self.active_since_ms = 0

    def begin(self, brokers: Iterable[BrokerRegistration], now_ms: int) -> None:
        """This controller became active: every broker gets a fresh session."""
        self.active_since_ms = now_ms
        self._sessions = {broker.broker_id: BrokerSession(broker.epoch, now_ms) for broker in brokers}

    def extend(self, now_ms: int) -> None:
        """This controller could not listen for a while: no session ends before one timeout from now."""
        self.active_since_ms = now_ms

    def touch(self, broker_id: int, epoch: int, now_ms: int, metadata_offset: int = -1) -> BrokerSession:
        """Record a heartbeat of the broker. A new epoch begins a new session."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = BrokerSession(epoch, now_ms)
        session.last_contact_ms = max(session.last_contact_ms, now_ms)
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def get(self, broker_id: int) -> BrokerSession | None:
        return self._sessions.get(broker_id)

    def is_valid(self, broker: BrokerRegistration, now_ms: int, timeout_ms: int) -> bool:
        """Return whether an unfenced broker sent a heartbeat within the timeout."""
        session = self._sessions.get(broker.broker_id)
        return (
            not broker.fenced
            and session is not None
            and session.epoch == broker.epoch
            and now_ms < session.last_contact_ms + timeout_ms
        )

    def expiry_ms(self, broker: BrokerRegistration, timeout_ms: int) -> int:
        """When an unfenced broker's session ends; the start of this controller counts as a sign of life."""
        session = self._sessions.get(broker.broker_id)
        heard_ms = self.active_since_ms
        if session is not None and session.epoch == broker.epoch:
            heard_ms = max(heard_ms, session.last_contact_ms)
        return heard_ms + timeout_ms

    def lowest_metadata_offset(self, broker_ids: Iterable[int]) -> int | None:
        """How far the slowest of these brokers has replayed; None if there are none."""
        offsets = [
            -1 if (session := self._sessions.get(broker_id)) is None else session.metadata_offset
            for broker_id in broker_ids
        ]
        return min(offsets, default=None)
