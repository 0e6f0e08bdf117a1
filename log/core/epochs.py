"""The leader epochs of one replica's log: at which offset did each leader's data begin (KIP-101, KIP-279).

The history is a list of `EpochEntry`, ordered by epoch. Rules that hold after every call:

* epochs and start offsets both increase strictly;
* entry i covers the offsets [start_offset of i, start_offset of i + 1), the last one up to the log end;
* data always begins at or above the first entry: when the log's start moves, the entry that covers the new
  start stays and begins there.

What a new entry does (`assign`), given the latest entry L:

| new entry                          | effect                                                            |
|------------------------------------|-------------------------------------------------------------------|
| epoch = L.epoch, start >= L.start  | none: an epoch keeps its first offset                             |
| epoch = L.epoch, start < L.start   | L is replaced, with every entry at or above the new start         |
| epoch > L.epoch, start > L.start   | appended                                                          |
| epoch > L.epoch, start <= L.start  | entries at or above the new start go: no data of theirs is left   |
| epoch < L.epoch                    | entries of that or a higher epoch, or at or above the start, go   |

Knows no file: `version` grows with every change, and the owner of the checkpoint writes `entries` when it has
grown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from ...light_dataclass import dataclass

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

SHOWN_MAX: Final = 16

_epoch_of = attrgetter("epoch")
_start_of = attrgetter("start_offset")


@dataclass(frozen=True, slots=True, order=True)
class EpochEntry:
    """The first offset that the leader of `epoch` wrote, or may have written."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Answer of OffsetForLeaderEpoch: `end_offset` is exclusive; (-1, -1) when the epoch is unknown."""

    epoch: int
    end_offset: int


UNDEFINED_EPOCH_END = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


class LeaderEpochCache:
    """The epoch history of one log, in memory."""

    __slots__ = ("_entries", "_version")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        """`entries` are assigned one by one, so that a checkpoint with conflicting lines loads as Kafka loads it."""
        kept: list[EpochEntry] = []  # a tuple of all that is kept, for each entry, would take time with its square
        for entry in entries:
            assert entry.epoch >= 0, entry
            assert entry.start_offset >= 0, entry
            if not _is_known(kept, entry):
                del kept[_kept_below(kept, entry) :]
                kept.append(entry)
        self._entries = tuple(kept)
        self._version = 0

    def __repr__(self) -> str:
        """As errors show it: of a long history the ends."""
        shown = [f"{entry.epoch}@{entry.start_offset}" for entry in (self._entries[:SHOWN_MAX])]
        if (left_out := len(self._entries) - len(shown)) > 0:
            latest = self._entries[-1]
            shown.append(f"and {left_out} more up to {latest.epoch}@{latest.start_offset}")
        return f"LeaderEpochCache({' '.join(shown)})"

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._entries

    @property
    def version(self) -> int:
        """How many changes `entries` has seen since it was loaded."""
        return self._version

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    @property
    def latest_epoch(self) -> int:
        """-1 if no epoch is known."""
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`; the table above says what goes. True if anything changed.

        Both must be >= 0: an epoch that came from a peer is checked before it gets here.
        """
        assert epoch >= 0, (epoch, start_offset)
        assert start_offset >= 0, (epoch, start_offset)
        entry = EpochEntry(epoch, start_offset)
        if _is_known(self._entries, entry):
            return False
        self._replace((*self._entries[: _kept_below(self._entries, entry)], entry))
        return True

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch whose range covers `offset`, which need not exist yet; None below the first entry."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].epoch if index else None

    def holds(self, epoch: int, first_offset: int, last_offset: int) -> bool:
        """Whether all of [first_offset, last_offset] belongs to `epoch`."""
        entries = self._entries
        index = bisect_right(entries, first_offset, key=_start_of)
        if index == 0 or entries[index - 1].epoch != epoch:
            return False
        return index == len(entries) or entries[index].start_offset > last_offset

    def previous_epoch(self, epoch: int) -> int | None:
        """The largest known epoch below `epoch`."""
        index = bisect_left(self._entries, epoch, key=_epoch_of)
        return self._entries[index - 1].epoch if index else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where the largest known epoch <= `epoch` ended (KIP-279), `log_end_offset` being the end of the latest one.

        Above every known epoch, or -1: (-1, -1). Below every known epoch: (epoch, first start offset), because data of
        that epoch, if there was any, has left the log. `epoch` is as a peer sent it; as in Kafka, -2 is below all.
        """
        latest_epoch = self.latest_epoch
        if epoch == UNDEFINED_EPOCH or epoch > latest_epoch or not self._entries:
            return UNDEFINED_EPOCH_END
        if epoch == latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self._entries, epoch, key=_epoch_of)
        end_offset = self._entries[index].start_offset
        return EpochEnd(self._entries[index - 1].epoch if index else epoch, end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the entries that begin at or above `end_offset`, the log's new end."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace(self._entries[: bisect_left(self._entries, end_offset, key=_start_of)])

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop what lies below `start_offset`, the log's new start; the entry that covers it stays and begins there."""
        entries = _from_start(self._entries, start_offset)
        if entries != self._entries:
            self._replace(entries)

    def prepend(self, older: Iterable[EpochEntry]) -> None:
        """Put the entries of `older` in front that begin below the first one here; all of them if there is none."""
        first = self.earliest_entry
        below = [
            entry
            for entry in older
            if first is None or (entry.epoch < first.epoch and entry.start_offset < first.start_offset)
        ]
        if below:
            self._replace((*below, *self._entries))

    def clear(self) -> None:
        if self._entries:
            self._replace(())

    def range(self, start_offset: int, end_offset: int) -> tuple[EpochEntry, ...]:
        """The history of the offsets [start_offset, end_offset) alone; the first entry begins at `start_offset`
        unless the log begins later."""
        entries = _from_start(self._entries, start_offset)
        return entries[: bisect_left(entries, end_offset, key=_start_of)]

    def _replace(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self._version += 1


def _is_known(entries: Sequence[EpochEntry], new: EpochEntry) -> bool:
    """Return whether the latest entry is of the new one's epoch already, and begins no later."""
    return bool(entries) and new.epoch == entries[-1].epoch and new.start_offset >= entries[-1].start_offset


def _kept_below(entries: Sequence[EpochEntry], new: EpochEntry) -> int:
    """Return how many entries a new one leaves: those with a lower epoch that begin below it."""
    return min(
        bisect_left(entries, new.epoch, key=_epoch_of),
        bisect_left(entries, new.start_offset, key=_start_of),
    )


def _from_start(entries: tuple[EpochEntry, ...], start_offset: int) -> tuple[EpochEntry, ...]:
    index = bisect_right(entries, start_offset, key=_start_of)
    if index == 0:
        return entries
    return (EpochEntry(entries[index - 1].epoch, start_offset), *entries[index:])
