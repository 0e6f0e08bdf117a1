"""The answers of coordinators to members of groups, and to producers with transactional ids, judged one by one.

| invariant            | violated when                                                                                |
|----------------------|----------------------------------------------------------------------------------------------|
| one owner            | a partition is assigned to two members in one generation                                     |
| generations rise     | a member is assigned something in a generation below one that was assigned before it asked    |
| commits are kept     | an offset is found committed below one that was acknowledged before it was asked for         |
| commits were asked   | an offset is found committed that no member ever asked to be committed                       |
| zombies are fenced   | a commit of a transaction is acknowledged that was asked for after another process had been  |
|                      | given a newer epoch of its transactional id                                                  |
| epochs rise          | a process is given an epoch that is not above those given out before it asked                |

Members commit rising offsets: each begins where the one before it ended. Where the coordinator's log has lost something
that the fault model permits (`has_lost`), nothing is said about what it remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....protocol import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from .events import (
    CommitAsked,
    Observed,
    OffsetCommitted,
    OffsetFound,
    PartitionsAssigned,
    ProducerInitialized,
    TransactionCommitted,
)
from .partition import InvariantViolationError

NONE: Final = -1
"""What is found where nothing was committed."""


class CoordinatorsJudge:
    """`has_lost` says of a coordinator's topic whether its log may have lost records; `now_ms` is virtual time."""

    def __init__(self, has_lost: Callable[[str], bool], now_ms: Callable[[], int]) -> None:
        self._has_lost = has_lost
        self._now_ms = now_ms
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}
        self._generations: dict[str, list[tuple[int, int]]] = {}
        """What was assigned: when, and in which generation."""
        self._asked: dict[tuple[str, TopicPartition], set[int]] = {}
        self._kept: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = {}
        """What was acknowledged: when, and the highest offset so far."""
        self._epochs: dict[str, list[tuple[int, int, int]]] = {}
        """What was given out for a transactional id: when, producer id, epoch."""

    def on(self, event: Observed) -> None:
        match event:
            case PartitionsAssigned():
                self._assigned(event)
            case CommitAsked(group, partition, offset):
                self._asked.setdefault((group, partition), set()).add(offset)
            case OffsetCommitted(group, partition, offset):
                kept = self._kept.setdefault((group, partition), [])
                kept.append((self._now_ms(), max(offset, kept[-1][1] if kept else NONE)))
            case OffsetFound():
                self._found(event)
            case ProducerInitialized():
                self._initialized(event)
            case TransactionCommitted():
                self._committed(event)

    def _assigned(self, event: PartitionsAssigned) -> None:
        """InvariantViolationError."""
        if self._has_lost(GROUP_METADATA_TOPIC):
            return
        for partition in event.partitions:
            owner = self._owners.setdefault((event.group, event.generation, partition), event.member)
            if owner != event.member:
                raise InvariantViolationError(
                    "one owner",
                    f"{partition} is assigned to {owner} and to {event.member} in generation {event.generation} of "
                    f"{event.group}",
                )
        given = self._generations.setdefault(event.group, [])
        newest = max((generation for at_ms, generation in given if at_ms < event.asked_ms), default=NONE)
        if event.generation < newest:
            raise InvariantViolationError(
                "generations rise",
                f"{event.member} asked at {event.asked_ms} ms, and is in generation {event.generation} of "
                f"{event.group}; generation {newest} was assigned before",
            )
        given.append((self._now_ms(), event.generation))

    def _found(self, event: OffsetFound) -> None:
        """InvariantViolationError."""
        if self._has_lost(GROUP_METADATA_TOPIC) or self._has_lost(TRANSACTION_STATE_TOPIC):
            return
        key = event.group, event.partition
        before = [offset for at_ms, offset in self._kept.get(key, ()) if at_ms < event.asked_ms]
        if before and event.offset < before[-1]:
            raise InvariantViolationError(
                "commits are kept",
                f"{event.client} asked at {event.asked_ms} ms, and {event.offset} of {event.partition} is committed "
                f"for {event.group}; {before[-1]} was acknowledged before",
            )
        if event.offset != NONE and event.offset not in self._asked.get(key, ()):
            raise InvariantViolationError(
                "commits were asked",
                f"{event.client} finds {event.offset} of {event.partition} committed for {event.group}, "
                f"which no member asked for",
            )

    def _initialized(self, event: ProducerInitialized) -> None:
        """InvariantViolationError."""
        given = self._epochs.setdefault(event.transactional_id, [])
        before = [
            epoch for at_ms, producer_id, epoch in given if producer_id == event.producer_id and at_ms < event.asked_ms
        ]
        highest = max(before, default=NONE)
        if event.epoch <= highest and not self._has_lost(TRANSACTION_STATE_TOPIC):
            raise InvariantViolationError(
                "epochs rise",
                f"{event.client} is given epoch {event.epoch} of producer {event.producer_id} for "
                f"{event.transactional_id}, and epoch {highest} was given out before",
            )
        given.append((self._now_ms(), event.producer_id, event.epoch))

    def _committed(self, event: TransactionCommitted) -> None:
        """InvariantViolationError."""
        given = self._epochs.get(event.transactional_id, [])
        later = [
            (at_ms, producer_id, epoch)
            for at_ms, producer_id, epoch in given
            if at_ms < event.asked_ms and (producer_id, epoch) > (event.producer_id, event.epoch)
        ]
        if later and not self._has_lost(TRANSACTION_STATE_TOPIC):
            at_ms, producer_id, epoch = later[0]
            raise InvariantViolationError(
                "zombies are fenced",
                f"{event.client} asked at {event.asked_ms} ms for a commit under epoch {event.epoch} of producer "
                f"{event.producer_id}, which was acknowledged, though {event.transactional_id} had had epoch {epoch} "
                f"of {producer_id} since {at_ms} ms",
            )
