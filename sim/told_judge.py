"""What clients are told beside records, judged with the answer.

| invariant                   | violated when                                                                          |
|-----------------------------|----------------------------------------------------------------------------------------|
| committed before it is told | records, acks=all, a high watermark or a latest offset go beyond what leaders have     |
|                             | reported as committed (`LossTracker.check_told`)                                       |
| told start                  | a log start, or an earliest offset, is above all that leaders have had                 |
| known producers             | a batch is refused for its sequence, though its producer has lost nothing that was     |
|                             | acknowledged by all: neither by a fault, nor by retention                              |
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.topics import TopicIdPartition, TopicPartition
from .history import History, Send
from .invariants import InvariantViolationError
from .loss_tracker import LossTracker


class ToldJudge:
    """`name_of` knows the incarnation of a topic, `highest_start` the highest log start that a leader has had."""

    def __init__(
        self,
        history: History,
        losses: LossTracker,
        name_of: Callable[[TopicPartition], TopicIdPartition],
        highest_start: Callable[[TopicIdPartition], int],
    ) -> None:
        self._history = history
        self._losses = losses
        self._name_of = name_of
        self._highest_start = highest_start

    def committed(self, partition: TopicPartition, end_offset: int, who: str, asked_ms: int) -> None:
        """Somebody who asked then takes everything below for committed. InvariantViolationError."""
        self._losses.check_told(self._name_of(partition), end_offset, who, asked_ms)

    def begins(self, partition: TopicPartition, start_offset: int, who: str) -> None:
        """The log does, as somebody is told. InvariantViolationError."""
        highest = self._highest_start(self._name_of(partition))
        if start_offset > highest:
            detail = f"{partition}: {who} was told that it starts at {start_offset}, leaders had {highest}"
            raise InvariantViolationError("told start", detail)

    def refused(self, partition: TopicPartition, send: Send) -> None:
        """For its sequence. InvariantViolationError."""
        name = self._name_of(partition)
        if not send.wants_all or self._losses.excuses_of(name):
            return
        ends = [
            each.base_offset + len(each.values)
            for each in self._history.sends
            if each.producer_id == send.producer_id and each.partition == send.partition and each.is_acknowledged_by_all
        ]
        if not ends or max(ends) > self._highest_start(name):
            detail = f"{partition}: {send.process}'s batch of sequence {send.sequence} was refused ({send.reason})"
            raise InvariantViolationError("known producers", f"{detail}, the ones before end at {ends[-1:]}")
