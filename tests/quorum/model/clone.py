"""Copies and fingerprints of a core, for a search that steps the same state many times.

Time is abstract. After each step the clock goes back to 0 and each deadline becomes one of two: SOON (a retry) or LATE
(an election, fetch or check-quorum timeout). So states that differ only in *when* something is due are one state, and a
tick either lets retries fire or everything. Times of the past (last fetch, ...) become 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from tierfetch.log.core import LeaderEpochCache
from tierfetch.quorum.core import log_view, roles
from tierfetch.quorum.core.config import RaftConfig
from tierfetch.quorum.core.log_view import LogView
from tierfetch.quorum.core.machine import RaftCore
from tierfetch.quorum.core.replica import Replica
from tierfetch.quorum.core.state import ReplicaKey

from ..cluster import endpoints_of, key_of
from ..disk import MemoryDisk

SOON_MS = 1
LATE_MS = 1_000
TICK_SOON_MS = 10
TICK_LATE_MS = 10_000
_BORDER_MS = 400

_MUTABLE: dict[type, frozenset[str]] = {
    RaftCore: frozenset({"_replica"}),
    Replica: frozenset({"role", "log", "_held", "_effects"}),
    LogView: frozenset({"epochs", "_outstanding"}),
    LeaderEpochCache: frozenset(),
    log_view._Outstanding: frozenset(),
    roles.Unattached: frozenset(),
    roles.Poll: frozenset({"granted", "rejected", "unreachable", "send_at_ms"}),
    roles.Prospective: frozenset({"poll"}),
    roles.Candidate: frozenset({"poll"}),
    roles.Download: frozenset(),
    roles.Follower: frozenset({"download"}),
    roles.ReplicaPosition: frozenset(),
    roles.Identity: frozenset(),
    roles.ParkedFetches: frozenset({"fetches"}),
    roles.ParkedFetch: frozenset(),
    roles.VoterChange: frozenset(),
    roles.Leader: frozenset(
        {
            "positions",
            "begin_at_ms",
            "begin_failures",
            "parked",
            "pending",
            "uncommitted",
            "voter_change",
            "reported",
            "identities",
        }
    ),
    roles.Resigned: frozenset({"end_at_ms"}),
}
"""Which parts of an object a step may change in place; all others are frozen values."""
_SLOTS: dict[type, tuple[str, ...]] = {cls: tuple(cls.__slots__) for cls in _MUTABLE}
_BOOKKEEPING = frozenset(
    {
        "config",
        "chance",
        "now_ms",
        "_timer_ms",
        "announced_leader",
        "_effects",
        "_persisted",
        "_changing",
        "_is_proven_with_state",
        "ends",
        "_version",
        "voters",
        "other_voters",
        "checked_voters",
        "is_voter",
        "voter_history",
    }
)
_WITHOUT_CONSEQUENCE = frozenset(
    {
        "election_attempts",  # how long to back off
        "has_fetched",  # pre-votes, which the model always grants
        "is_leader_suspect",
        "is_leader_resigned",
        "fetch",  # the search for a leader, which never arrives
        "voter_request_at_ms",
        "end_at_ms",  # EndQuorumEpoch, likewise
        "target_id",
        "is_refused",  # no two nodes have one id
        "granting_voters",
        "unreachable",
        "rejected",  # a lost election ends by its timeout, too
        "send_at_ms",  # whether a request is on its way is the world's to know
        "begin_at_ms",
        "begin_failures",
        "leader_endpoint",
        "directory_id",  # each node has one, always the same
        "identities",  # so it is confirmed at once, by whoever has a position
    }
)
_NO_STATE = _BOOKKEEPING | _WITHOUT_CONSEQUENCE
NO_ID = -1
_ID_SHIFT = {
    "leader_id": 0,
    "peer_id": 0,
    "granted": 0,
    "granting_voters": 0,
    "voters": 0,
    "source": 1,
    "target": 1,
}
"""Parts that hold ids of nodes as numbers, or indexes (from 0) of them."""


class NoChance:
    """The lowest value, always: which of several delays is drawn is the search's own choice."""

    def randrange(self, start: int, stop: int) -> int:
        return start


def model_config(node_id: int) -> RaftConfig:
    return RaftConfig(
        key=key_of(node_id),
        endpoints=endpoints_of(node_id),
        election_timeout_ms=LATE_MS,
        fetch_timeout_ms=LATE_MS,
        election_backoff_max_ms=SOON_MS,
        retry_backoff_ms=SOON_MS,
        fetch_max_wait_ms=0,
    )


def _copier(cls: type, mutable: frozenset[str]) -> Callable[[Any], Any]:
    slots = [(name, name in mutable) for name in cls.__slots__]

    def copy(value: Any) -> Any:
        new = cls.__new__(cls)
        for name, is_mutable in slots:
            part = getattr(value, name)
            setattr(new, name, clone(part) if is_mutable else part)
        return new

    return copy


_COPIERS: dict[type, Callable[[Any], Any]] = {
    **{cls: _copier(cls, mutable) for cls, mutable in _MUTABLE.items()},
    dict: lambda value: {key: clone(part) for key, part in value.items()},
    list: lambda value: [clone(part) for part in value],
    deque: lambda value: deque(clone(part) for part in value),
    set: set,
}


def clone(value: Any) -> Any:
    """Mutable parts are copied, frozen ones shared."""
    copier = _COPIERS.get(type(value))
    return value if copier is None else copier(value)


@cache
def _state_slots(cls: type) -> tuple[tuple[str, int], ...]:
    """Names of what counts, and by how much to shift a node's id for `names`: 0, 1 for an index; NO_ID for the rest."""
    own = {roles.Unattached: {"fetch_at_ms"}, roles.Resigned: {"request"}, MemoryDisk: {"bootstrap", "snapshots"}}
    slots = _SLOTS.get(cls) or tuple(field.name for field in fields(cls))
    skipped = _NO_STATE | own.get(cls, set()) if cls in _SLOTS or cls is MemoryDisk else frozenset()
    return tuple((name, _ID_SHIFT.get(name, NO_ID)) for name in slots if name not in skipped)


Printer = Callable[[Any, tuple[int, ...]], Any]
_PRINTERS: dict[type, Printer | None] = {ReplicaKey: lambda key, names: names[key.id]}
"""How to fingerprint a value of a type; None: it is its own."""


def fingerprint(value: Any, names: tuple[int, ...]) -> Any:
    """Hashable; equal exactly for values that will do the same, once node `i` is called `names[i]`."""
    printer = _printer(type(value))
    return value if printer is None else printer(value, names)


def _printer(cls: type) -> Printer | None:
    try:
        return _PRINTERS[cls]
    except KeyError:
        printer = _PRINTERS[cls] = _make_printer(cls)
        return printer


def _make_printer(cls: type) -> Printer | None:
    if cls in _SLOTS or is_dataclass(cls):
        return _printer_of_parts(cls.__name__, _state_slots(cls))
    if cls is dict:
        return lambda value, names: frozenset(
            [(fingerprint(key, names), fingerprint(part, names)) for key, part in value.items()]
        )
    if cls in (list, deque, tuple):
        return lambda value, names: tuple([fingerprint(part, names) for part in value])
    return None


def _printer_of_parts(title: str, slots: tuple[tuple[str, int], ...]) -> Printer:
    def print_parts(value: Any, names: tuple[int, ...]) -> Any:
        parts: list[Any] = [title]
        for name, shift in slots:
            part = getattr(value, name)
            if part is None:
                parts.append(None)
            elif shift == NO_ID:
                printer = _printer(type(part))
                parts.append(part if printer is None else printer(part, names))
            elif isinstance(part, set | tuple):
                parts.append(frozenset([names[node_id] for node_id in part]))
            else:
                parts.append(part if part < 0 else names[part + shift] - shift)
        return tuple(parts)

    return print_parts


def abstract_time(core: RaftCore) -> None:
    """Forget how late it is, and how long until when."""
    replica = core._replica
    now_ms, replica.now_ms, core._timer_ms = replica.now_ms, 0, None
    _abstract(replica.role, now_ms)


def _abstract(role: Any, now_ms: int) -> None:
    for name in _SLOTS[type(role)]:
        value = getattr(role, name)
        if isinstance(value, roles.Poll):
            _abstract(value, now_ms)
        elif name == "positions":
            for position in value.values():
                _forget(position)
        elif name in ("since_ms", "pending_since_ms", "check_quorum_deadline_ms"):
            setattr(role, name, 0)
        elif name == "begin_failures":
            value.clear()
        elif isinstance(value, dict) and name.endswith("_at_ms"):
            for key, at_ms in value.items():
                value[key] = _bucket(at_ms, now_ms)
        elif name.endswith("_ms") and value is not None:
            setattr(role, name, _bucket(value, now_ms))


def _forget(position: roles.ReplicaPosition) -> None:
    position.last_fetch_ms = position.last_caught_up_ms = 0
    position.last_fetch_leader_end_offset = 0


def _bucket(at_ms: int, now_ms: int) -> int:
    if at_ms == roles.IN_FLIGHT:
        return at_ms
    return SOON_MS if at_ms - now_ms <= _BORDER_MS else LATE_MS
