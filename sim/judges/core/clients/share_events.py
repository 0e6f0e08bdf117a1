"""What members of share groups (KIP-932) are answered, as frozen values: a part of `events.Observed`."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from .....light_dataclass import dataclass
from .....protocol import TopicPartition


class Kind(IntEnum):
    """What is said of a record."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Nothing yet; its lock begins again (KIP-1222)."""


class ShareSession(NamedTuple):
    """A share session: which member has it, with the broker on which host, and its number: no other one has it."""

    member: str
    host: str
    number: int


@dataclass(frozen=True, slots=True)
class Given:
    """Offsets that a member has acquired, and the value of each; None where the answer has no record."""

    partition: TopicPartition
    first: int
    last: int
    delivery_count: int
    values: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class RecordsGiven:
    """A ShareFetch that was sent at `asked_ms` is answered: of `failed` with errors, of `empty` with nothing."""

    session: ShareSession
    given: tuple[Given, ...]
    empty: tuple[TopicPartition, ...]
    asked_ms: int
    failed: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordsAsked:
    """A ShareFetch of these partitions is about to be sent: whatever it acquires may never be answered."""

    session: ShareSession
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AcknowledgementAsked:
    """A member is about to say something of these records."""

    session: ShareSession
    partition: TopicPartition
    kinds: tuple[tuple[int, Kind], ...]


@dataclass(frozen=True, slots=True)
class AcknowledgementAnswered:
    """It is answered, without error if `is_kept`; else it does not hold, or that is not known (`is_unclear`)."""

    session: ShareSession
    partition: TopicPartition
    kinds: tuple[tuple[int, Kind], ...]
    asked_ms: int
    is_kept: bool
    is_unclear: bool = False


@dataclass(frozen=True, slots=True)
class ShareSessionOver:
    """A member closes a session, loses it, or dies: what it has locked there may be free from now on."""

    session: ShareSession


@dataclass(frozen=True, slots=True)
class ShareStartFound:
    """A client that asked at `asked_ms` learns where a share-partition starts."""

    partition: TopicPartition
    offset: int
    asked_ms: int


ShareEvent = (
    RecordsGiven | RecordsAsked | AcknowledgementAsked | AcknowledgementAnswered | ShareSessionOver | ShareStartFound
)
