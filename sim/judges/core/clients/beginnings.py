"""The past of which a log knows its producers: from the log start on that it began with.

A replica without a disk, or one whose records the leader's log no longer has, begins at a log start: it gets no batch
from below, and no producer of those. As a leader it takes a batch that was in the log long ago once more, as
Apache Kafka's does. A log begins

* when it is seen empty, at offset 0, in a process that has just begun to host it;
* when its local log start is above where its log ended before: everything was given up, and the rest is elsewhere.

Neither a restart nor retention begins one: what the log has had it knows, with the snapshots of its segments.
"""

from __future__ import annotations

from .....protocol import TopicIdPartition
from ..events import Observed, ReplicaChanged
from ..partition import ReplicaStatus


class BeginningsJudge:
    """Judges nothing: others ask for `began`."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, TopicIdPartition], ReplicaStatus] = {}
        self._began: dict[tuple[int, TopicIdPartition], int] = {}
        """The log start of the moment at which the log of a replica began."""
        self._appends: dict[TopicIdPartition, list[tuple[int, int, int]]] = {}
        """From and up to which offset a leader appended, and where its log had begun."""

    def on(self, event: Observed) -> None:
        if isinstance(event, ReplicaChanged):
            self._changed((event.now.node_id, event.partition), event.now)

    def began(self, name: TopicIdPartition, offset: int) -> int:
        """Return the log start with which the log of the leader that appended `offset` had begun: of several leaders
        that of the oldest log, and 0 if none was seen to.
        """
        appends = self._appends.get(name, ())
        return min((began for start, end, began in appends if start <= offset < end), default=0)

    def _changed(self, key: tuple[int, TopicIdPartition], now: ReplicaStatus) -> None:
        before = self._last.get(key)
        self._last[key] = now
        is_new = before is None or before.incarnation != now.incarnation
        if (is_new and now.log_end_offset == 0) or before is None or now.local_log_start_offset > before.log_end_offset:
            self._began[key] = now.log_start_offset
        elif now.leads_epoch is not None and now.log_end_offset > before.log_end_offset:
            append = before.log_end_offset, now.log_end_offset, self._began[key]
            self._appends.setdefault(key[1], []).append(append)
