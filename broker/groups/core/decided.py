"""A decision of a group that is what its records add up to: the records are applied as they are decided.

    apply(record) -> the record that undoes it

So the next part of a decision sees what the one before decided, and a decision that could not be written is undone.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from ....light_dataclass import dataclass
from .records import GroupRecord


class DecidedGroup(Protocol):
    """A group whose state is a fold over its records. Deadlines are not durable."""

    group_id: str
    bytes_held: int
    seen_topics: int | None

    @property
    def members(self) -> Sized:
        """The members, by id."""

    def apply(self, record: GroupRecord) -> GroupRecord:
        """Take in a record; return the one that undoes it."""

    def complete_deadlines(self, now_ms: int, session_timeout_ms: int) -> bool:
        """Give a whole session to every member that has none. Return whether any had none."""

    def resume(self, now_ms: int, session_timeout_ms: int) -> None:
        """Give every member a whole session: the coordinator has changed."""

    def deadline_ms(self) -> int | None:
        """Return a time before which nothing is due; None if nothing ever is."""

    @property
    def is_nothing(self) -> bool:
        """Whether no record made it, so that it need not be remembered."""


GroupT = TypeVar("GroupT", bound=DecidedGroup)


@dataclass(slots=True)
class Decided(Generic[GroupT]):
    """Records that are applied, to be written."""

    group: GroupT
    records: list[GroupRecord] = field(default_factory=list)
    _undo: list[GroupRecord] = field(default_factory=list)

    def put_record(self, record: GroupRecord) -> None:
        """Decide and apply a record."""
        self._undo.append(self.group.apply(record))
        self.records.append(record)

    def undo(self) -> None:
        """Take everything back, newest first."""
        for record in reversed(self._undo):
            self.group.apply(record)
        self._undo.clear()
        self.group.seen_topics = None
