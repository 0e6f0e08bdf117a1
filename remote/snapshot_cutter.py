"""Cuts ledger snapshots of one metadata partition, and finds out whether one may be trusted.

A cut continues the last snapshot: it loads the ledgers of *all* user partitions of the metadata partition, those that
this broker does not follow included (any of them may be assigned next), reads the topic from where the snapshot ends,
applies what is there, writes the next snapshot, and forgets the ledgers. So what a broker holds in memory does not grow
with the partitions of others, but for the time of a cut; and no reader waits for it.

When a snapshot is used:

| what is found                                              | what is done                                           |
|------------------------------------------------------------|--------------------------------------------------------|
| none                                                       | the topic is read from its start                       |
| torn, damaged, another version                             | removed; the topic is read from its start              |
| of another topic id or metadata partition                  | the same: the topic was created again                  |
| it ends above the high watermark                           | the same: the topic has lost what it was cut from      |
| it ends below the topic's log start                        | the same: what was between them is unknown             |
| the topic's leader has another epoch before its end        | the same, once the first read from there says so       |
| else                                                       | reading resumes at its end; the partitions are ready   |
|                                                            | after the first read, not before                       |

Where the topic's log start is above 0 (an operator bounded the topic), a snapshot that is not used is a loss, and is
logged as an error: the remote segments that only the deleted records named stay in the tier, unknown to this broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from ..protocol import ErrorCode, KafkaError, TopicIdPartition
from .core.ledger import IllegalTransitionError, RemoteLogLedger
from .core.records import MetadataRecordError, decode_event
from .core.snapshot import SnapshotError, SnapshotHeader
from .ledger_book import partition_of
from .metadata import RemoteLogMetadataError
from .metadata_topic import NO_EPOCH, MetadataBatch, MetadataTopic
from .snapshot_files import LedgerSnapshot, SnapshotFiles

_log = logging.getLogger(__name__)

EVENTS_BETWEEN_CUTS_MIN: Final = 10_000
"""Reading so many events takes about a second on a busy core: what a restart may have to read again."""
EVENTS_PER_SLICE: Final = 64
"""Events decoded and applied before the event loop gets its turn: about five milliseconds."""


def is_cut_due(position: int, snapshot_end: int, segments: int) -> bool:
    """Return whether a snapshot should be cut at `position`: at most so often that writing its `segments` again costs
    less than reading the events since the last one.
    """
    return position - snapshot_end >= max(EVENTS_BETWEEN_CUTS_MIN, segments)


class SnapshotCutter:
    """The snapshots of one metadata partition. `files` is None where none are kept."""

    def __init__(self, topic: MetadataTopic, number: int, files: SnapshotFiles | None, call_timeout_s: float) -> None:
        self._topic = topic
        self._number = number
        self._files = files
        self._call_timeout_s = call_timeout_s
        self._end = -1
        self._segments = 0
        self._is_distrusted = False

    def distrust(self) -> None:
        """The topic's log is not the one that was read: no snapshot of it is used until another one was cut."""
        self._is_distrusted = True

    def is_due(self, position: int) -> bool:
        """Return whether a snapshot should be cut, all up to `position` having been read."""
        return self._files is not None and is_cut_due(position, max(0, self._end), self._segments)

    async def load(
        self, log_start: int, high_watermark: int, wanted: Collection[TopicIdPartition] | None = None
    ) -> LedgerSnapshot | None:
        """Return a snapshot to resume from, by the table above, with the ledgers of the `wanted` partitions or all."""
        if self._files is None:
            return None
        reason = "records that this broker had read are no longer in the topic" if self._is_distrusted else None
        snapshot = None
        try:
            if reason is None:
                snapshot = await self._files.read(self._number, wanted)
                reason = None if snapshot is None else self._objection(snapshot.header, log_start, high_watermark)
        except (SnapshotError, OSError) as error:
            reason = str(error)
        if reason is not None:
            await self._discard(reason)
            snapshot = None
        if snapshot is not None:
            self._end = snapshot.header.end_offset
        elif log_start > 0:
            _log.error(
                "metadata partition %d begins at offset %d, and no ledger snapshot has what was before: remote segments"
                " named there are unknown to this broker; keep all records (retention.ms=-1) until every broker has"
                " snapshots",
                self._number,
                log_start,
            )
        return snapshot

    async def cut(self, up_to: int) -> None:
        """Write a snapshot of all that is before `up_to`, and possibly of a little more. What fails leaves the former
        one: KafkaError, OSError or RemoteLogMetadataError of the topic are raised, those of the disk are logged.
        """
        if self._files is None:
            return
        async with self._files.turn:
            # The id is compared again at the end: a topic that was created again meanwhile is not what was read.
            topic_id = self._topic.topic_id()
            async with asyncio.timeout(self._call_timeout_s):
                log_start, high_watermark = await self._topic.bounds(self._number)
            snapshot = await self.load(log_start, high_watermark)
            position, last_epoch = log_start, NO_EPOCH
            ledgers: dict[TopicIdPartition, RemoteLogLedger] = {}
            if snapshot is not None:
                position, last_epoch = snapshot.header.end_offset, snapshot.header.last_epoch
                ledgers = snapshot.ledgers
            while position < up_to:
                batch = await self._read(position, last_epoch)
                await _apply(ledgers, batch, position)
                position = max(position, batch.next_offset)
                last_epoch = last_epoch if batch.last_epoch == NO_EPOCH else batch.last_epoch
            if topic_id is None or topic_id != self._topic.topic_id() or last_epoch == NO_EPOCH:
                return
            await self._write(SnapshotHeader(topic_id, self._number, position, last_epoch), ledgers)

    async def _read(self, position: int, last_epoch: int) -> MetadataBatch:
        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await self._topic.read(self._number, position, last_epoch)
        except KafkaError as error:
            if error.code is not ErrorCode.offset_out_of_range:
                raise
            self.distrust()
            raise RemoteLogMetadataError(f"no ledger snapshot of metadata partition {self._number}: {error}") from error

    async def _write(self, header: SnapshotHeader, ledgers: dict[TopicIdPartition, RemoteLogLedger]) -> None:
        assert self._files is not None
        try:
            await self._files.write(header, ledgers.values())
        except OSError as error:
            _log.warning(
                "%s: cannot write a ledger snapshot, continuing without: %s", self._files.path(self._number), error
            )
        else:
            self._is_distrusted = False
        # Also after a failure: a disk that is full now is asked again only after as many events.
        self._end = header.end_offset
        self._segments = sum(len(ledger) for ledger in ledgers.values())

    async def _discard(self, reason: str) -> None:
        assert self._files is not None
        path = self._files.path(self._number)
        _log.warning("%s: ledger snapshot not used, reading the topic from its start: %s", path, reason)
        self._end = -1
        self._is_distrusted = False
        try:
            await self._files.remove(self._number)
        except OSError as error:
            _log.warning("%s: cannot remove it: %s", path, error)
            self._is_distrusted = True

    def _objection(self, header: SnapshotHeader, log_start: int, high_watermark: int) -> str | None:
        topic_id = self._topic.topic_id()
        if header.topic_id != topic_id or header.partition != self._number:
            return f"it is of topic {header.topic_id} partition {header.partition}, expected {topic_id}"
        if header.end_offset > high_watermark:
            return f"it ends at offset {header.end_offset}, above the high watermark {high_watermark}"
        if header.end_offset < log_start:
            return f"it ends at offset {header.end_offset}, and the topic begins at {log_start}"
        return None


async def _apply(ledgers: dict[TopicIdPartition, RemoteLogLedger], batch: MetadataBatch, position: int) -> None:
    """Apply the records from `position` on, as every reader of the topic does: what is illegal is skipped."""
    for count, (offset, value) in enumerate(batch.records, start=1):
        if offset >= position:
            try:
                event = decode_event(value)
                partition = partition_of(event)
                ledger = ledgers.get(partition)
                if ledger is None:
                    ledger = ledgers[partition] = RemoteLogLedger(partition)
                ledger.apply(event)
            except (MetadataRecordError, IllegalTransitionError) as error:
                _log.debug("skipped offset %d while cutting a ledger snapshot: %s", offset, error)
        if count % EVENTS_PER_SLICE == 0:
            await asyncio.sleep(0)
