"""What the members of a share group are given, and what becomes of it (KIP-932), judged at each answer.

| invariant          | violated when                                                                                  |
|--------------------|------------------------------------------------------------------------------------------------|
| delivery limit     | a record is delivered more often than the limit, as the answer counts                          |
| deliveries counted | a record that was released, and answered so, comes again with a count that is not higher       |
| finished once      | a record is delivered although ACCEPT or REJECT of it was answered                             |
| one holder         | a record is given to a second member while the lock of the first one lasts                     |
| holders decide     | an acknowledgement is answered although another member was given the record before it was sent |
| as in the log      | the answer has another value for an offset than the log, or the one before                     |
| comes again        | a record is free for longer than a lock and `SLACK_MS`, and fetches are answered without it    |
| finished first     | a share-partition starts after a record that no member finished, and that has deliveries left  |
| start stays        | a share-partition starts before where it was found to start                                    |
| delivered          | in the end a record was never delivered, and few fetches were lost since it was there          |

What excuses a violation is narrow. Answers of a broker that is not the leader, or was not when it was asked, say
nothing of what the leader holds: their records count as delivered, that is all. A member holds its lock as long as its
session lives; the broker may see its connection end first, so a second holder is convicted only once the first one's
session is continued, without being opened again. A lock that is renewed (RENEW, KIP-1222) lasts from then on, and what
is on its way may have renewed it. A fetch without an answer may have acquired anything, once: each counts as one
delivery of every record of what it asked for, and as a lock until it must have ended. One that comes
empty within `ERROR_AGAIN_MS` of an error says nothing of that partition. What is said too late of a record that its
next holder has finished, or is about to, is answered without error, as by Apache Kafka, and means nothing. Where the
log of a share coordinator or of the partition has lost something that the fault model permits (`has_lost`), nothing
more is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from .....light_dataclass import dataclass
from .....protocol import SHARE_GROUP_STATE_TOPIC, TopicPartition
from ..acknowledged_writes import Anomaly, FinalLog
from ..events import LeaderElected, MetadataChanged, Observed
from ..partition import InvariantViolationError
from .share_events import (
    AcknowledgementAnswered,
    AcknowledgementAsked,
    Given,
    Kind,
    RecordsAsked,
    RecordsGiven,
    ShareSession,
    ShareSessionOver,
    ShareStartFound,
)

SLACK_MS: Final = 2_000
SLOW_MS: Final = 1_000
"""A fetch that is under way for longer may have been answered long ago, and its answer be on its way."""
EMPTY_ENOUGH: Final = 3
NEVER: Final = -1
ERROR_AGAIN_MS: Final = 1_000
"""A session does not get the same error of a partition again within this (`broker/share/core/sessions.py`)."""
UNANSWERED_MS: Final = 4_000
"""How long a fetch may be under way."""
ENDS: Final = {
    Kind.ACCEPT: "records accepted by share groups",
    Kind.RELEASE: "records released by share groups",
    Kind.REJECT: "records rejected by share groups",
    Kind.RENEW: "locks renewed by share groups",
}


@dataclass(slots=True)
class _Record:
    value: int | None = None
    holder: ShareSession | None = None
    given_ms: int = NEVER
    """When the holder learned that it has it."""
    lock_from_ms: int = NEVER
    """When the holder had asked: its lock lasts from then on at least."""
    free_ms: int = 0
    """From when on no member can have it locked."""
    count: int = 0
    """As the last answer of the leader said."""
    count_max: int = 0
    """The highest that any answer said."""
    releasing: dict[ShareSession, int] = field(default_factory=dict)
    """The counts of deliveries that end with a release which is not answered yet."""
    ending: set[ShareSession] = field(default_factory=set)
    """The sessions that have said ACCEPT or REJECT, and may have reached the leader."""
    released_count: int = 0
    """The count that a release has made durable."""
    released_ms: int = NEVER
    finished_ms: int = NEVER
    is_unclear: bool = False
    """Whether it may be finished, for all that is known."""
    deliveries: int = 0


@dataclass(slots=True)
class _Shared:
    """A partition, and who leads it since when: None while that is not known."""

    records: dict[int, _Record] = field(default_factory=dict)
    leader: str | None = None
    led_since_ms: int = 0
    lost_ms: list[int] = field(default_factory=list)
    """When fetches were sent that were never answered, as far as is known now."""
    empty: int = 0
    """How many fetches in a row were answered with nothing."""
    start: int = 0
    start_found_ms: int = 0


class DeliveriesJudge:
    """Judges one group, which begins at the start of `partitions`. All times are virtual, in ms; `hosts` are those of
    brokers by id. `lock_ms` and `limit` are the group's.
    """

    def __init__(
        self,
        partitions: tuple[TopicPartition, ...],
        hosts: Mapping[int, str],
        has_lost: Callable[[str], bool],
        now_ms: Callable[[], int],
        *,
        lock_ms: int,
        limit: int,
    ) -> None:
        self._partitions = {each: _Shared() for each in partitions}
        self._hosts = hosts
        self._has_lost = has_lost
        self._now_ms = now_ms
        self._lock_ms = lock_ms
        self._limit = limit
        self._asking: dict[ShareSession, tuple[int, tuple[TopicPartition, ...]]] = {}
        self._failed_ms: dict[tuple[ShareSession, TopicPartition], int] = {}
        """When a session got an error of a partition last."""
        self._suspects: dict[ShareSession, str] = {}
        """What a session has lost to another member: a violation if it lives."""
        self._coordinators_since_ms = 0
        self.counts: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        """Whether nothing is said any longer."""
        topics = {each.topic for each in self._partitions} | {SHARE_GROUP_STATE_TOPIC}
        return any(self._has_lost(topic) for topic in sorted(topics))

    def on(self, event: Observed) -> None:
        """InvariantViolationError."""
        match event:
            case MetadataChanged():
                self._metadata_changed(event)
            case LeaderElected(host, partition):
                self._leader_elected(host, partition.topic_partition)
            case RecordsAsked(session, partitions):
                self._asking[session] = self._now_ms(), partitions
            case RecordsGiven():
                self._given(event)
            case AcknowledgementAsked() if not self.is_over:
                self._acknowledging(event)
            case AcknowledgementAnswered() if not self.is_over:
                self._acknowledged(event)
            case ShareSessionOver(session):
                self._session_over(session)
            case ShareStartFound() if not self.is_over:
                self._start_found(event)

    # Who leads.

    def _leader_elected(self, host: str, partition: TopicPartition) -> None:
        shared = self._partitions.get(partition)
        if shared is not None:
            shared.leader, shared.led_since_ms, shared.empty = host, self._now_ms(), 0

    def _metadata_changed(self, event: MetadataChanged) -> None:
        before, after = event.before, event.after
        for partition, shared in self._partitions.items():
            old, now = before.partition(partition), after.partition(partition)
            if now is not None and (old is None or old.leader_epoch != now.leader_epoch):
                shared.leader = None
        if before.topics.get(SHARE_GROUP_STATE_TOPIC) != after.topics.get(SHARE_GROUP_STATE_TOPIC):
            self._coordinators_since_ms = self._now_ms()

    def _leads(self, partition: TopicPartition, host: str, asked_ms: int) -> bool:
        """Whether that broker has led since before it was asked, and does."""
        shared = self._partitions[partition]
        return shared.leader == host and shared.led_since_ms <= asked_ms

    # What is given.

    def _given(self, event: RecordsGiven) -> None:
        self._asking.pop(event.session, None)
        if self.is_over:
            return
        self._answered(event.session)
        for given in event.given:
            shared = self._partitions[given.partition]
            shared.empty = 0
            is_current = self._leads(given.partition, event.session.host, event.asked_ms)
            for offset, value in zip(range(given.first, given.last + 1), given.values, strict=True):
                record = shared.records.setdefault(offset, _Record())
                self._check_value(given, offset, value, record)
                record.count_max = max(record.count_max, given.delivery_count)
                if given.delivery_count > self._limit:
                    self._convict("delivery limit", given.partition, offset, f"delivery {given.delivery_count}")
                if is_current:
                    self._check(event, given, offset, record)
                    self._hold(event, given, record)
                record.free_ms = max(record.free_ms, self._now_ms() + self._lock_ms)
                record.deliveries += 1
                self.counts["records delivered by share groups"] += 1
                self.counts["records delivered again"] += record.deliveries > 1
        for partition in event.failed:
            self._failed_ms[event.session, partition], self._partitions[partition].empty = self._now_ms(), 0
        for partition in event.empty:
            failed_ms = self._failed_ms.get((event.session, partition))
            is_sound = failed_ms is None or event.asked_ms >= failed_ms + ERROR_AGAIN_MS
            if is_sound and self._leads(partition, event.session.host, event.asked_ms):
                self._came_empty(partition)

    def _hold(self, event: RecordsGiven, given: Given, record: _Record) -> None:
        """Each acquisition under one leader counts one more: an answer that counts fewer was long on its way."""
        led_since_ms = self._partitions[given.partition].led_since_ms
        if given.delivery_count >= record.count or record.lock_from_ms < led_since_ms <= event.asked_ms:
            record.holder, record.count = event.session, given.delivery_count
            record.given_ms, record.lock_from_ms = self._now_ms(), event.asked_ms

    def _check_value(self, given: Given, offset: int, value: int | None, record: _Record) -> None:
        if value is None or (record.value is not None and record.value != value):
            self._convict("as in the log", given.partition, offset, f"it is {value}, and was {record.value}")
        record.value = value

    def _check(self, event: RecordsGiven, given: Given, offset: int, record: _Record) -> None:
        """Compare what the leader gives with what it has answered before."""
        member, partition, asked_ms = event.session.member, given.partition, event.asked_ms
        since = f"delivered to {member}, which asked at {asked_ms} ms"
        is_later = given.delivery_count > record.count or asked_ms >= record.finished_ms
        if record.finished_ms != NEVER and is_later:
            detail = f"{since}; its end was answered at {record.finished_ms} ms"
            self._convict("finished once", partition, offset, detail)
        if NEVER < record.released_ms <= asked_ms and given.delivery_count <= record.released_count:
            detail = f"{since}, as delivery {given.delivery_count}; it was released after {record.released_count}"
            self._convict("deliveries counted", partition, offset, detail)
        holder = record.holder
        is_locked = self._now_ms() < record.lock_from_ms + self._lock_ms
        is_of_now = self._partitions[partition].led_since_ms <= record.lock_from_ms
        is_newer = given.delivery_count >= record.count
        if holder is not None and holder != event.session and is_locked and is_of_now and is_newer:
            detail = f"{since}; {holder.member} had it since {record.lock_from_ms} ms, for {self._lock_ms} ms"
            self._suspects.setdefault(holder, f"{partition}: offset {offset} is {detail}")

    def _came_empty(self, partition: TopicPartition) -> None:
        """A fetch that waited its time found nothing: nothing may have been free for long."""
        shared, now_ms = self._partitions[partition], self._now_ms()
        shared.empty += 1
        slow = [asked for asked, some in self._asking.values() if partition in some and now_ms - asked > SLOW_MS]
        if shared.empty < EMPTY_ENOUGH or slow:
            return
        for offset, record in shared.records.items():
            free_ms = max(record.free_ms, shared.led_since_ms)
            is_late = now_ms - free_ms > self._lock_ms + SLACK_MS
            if is_late and not self._may_be_finished(partition, record):
                detail = f"free since {free_ms} ms; {shared.empty} fetches in a row were answered without it"
                self._convict("comes again", partition, offset, detail)

    def _may_be_finished(self, partition: TopicPartition, record: _Record) -> bool:
        """Return whether it may be finished: acknowledged, perhaps not answered yet, or delivered to the limit."""
        lost_ms = self._partitions[partition].lost_ms
        lost = sum(asked_ms >= record.given_ms - UNANSWERED_MS for asked_ms in lost_ms)
        under_way = sum(partition in asked for _, asked in self._asking.values())
        deliveries = record.count_max + lost + under_way
        is_said = record.finished_ms != NEVER or record.is_unclear or bool(record.ending)
        return is_said or deliveries >= self._limit

    # What is said of it.

    def _acknowledging(self, event: AcknowledgementAsked) -> None:
        for offset, kind in event.kinds:
            record = self._partitions[event.partition].records[offset]
            if kind is Kind.RENEW:
                record.free_ms = max(record.free_ms, self._now_ms() + UNANSWERED_MS + self._lock_ms)
            elif kind is not Kind.RELEASE:
                record.ending.add(event.session)
            elif record.holder == event.session:
                record.holder = None
                record.releasing[event.session] = record.count

    def _acknowledged(self, event: AcknowledgementAnswered) -> None:
        shared = self._partitions[event.partition]
        for offset, kind in event.kinds:
            record = shared.records[offset]
            if kind is Kind.RENEW:
                self._renewed(event, offset, record)
                continue
            record.is_unclear |= event.is_unclear
            count = record.releasing.pop(event.session, 0)
            if not event.is_kept:
                if not event.is_unclear:
                    record.ending.discard(event.session)
                continue
            is_late = record.finished_ms != NEVER or bool(record.ending - {event.session})
            self.counts[ENDS[kind]] += 1
            if not is_late:
                self._check_decision(event, offset, record)
            if kind is Kind.RELEASE and not is_late:
                record.released_count, record.released_ms = max(record.released_count, count), event.asked_ms
            elif kind is not Kind.RELEASE and record.finished_ms == NEVER:
                record.finished_ms = self._now_ms()
            if record.holder in (None, event.session):
                record.holder, record.free_ms = None, self._now_ms()

    def _renewed(self, event: AcknowledgementAnswered, offset: int, record: _Record) -> None:
        """A lock that is renewed lasts from when that was asked for; the delivery is the same."""
        if not event.is_kept:
            return
        self.counts[ENDS[Kind.RENEW]] += 1
        if record.finished_ms == NEVER and not record.ending:
            self._check_decision(event, offset, record)
        record.free_ms = max(record.free_ms, self._now_ms() + self._lock_ms)
        if record.holder == event.session and self._leads(event.partition, event.session.host, event.asked_ms):
            record.lock_from_ms = max(record.lock_from_ms, event.asked_ms)

    def _check_decision(self, event: AcknowledgementAnswered, offset: int, record: _Record) -> None:
        holder, shared = record.holder, self._partitions[event.partition]
        is_other = holder is not None and holder.member != event.session.member
        is_of_now = self._leads(event.partition, event.session.host, event.asked_ms)
        is_held = is_of_now and shared.led_since_ms <= record.lock_from_ms and record.given_ms < event.asked_ms
        if is_other and is_held:
            detail = f"{event.session.member} asked at {event.asked_ms} ms; {holder} has it since {record.given_ms} ms"
            self._convict("holders decide", event.partition, offset, detail)

    def _answered(self, session: ShareSession) -> None:
        """Its session lives: what it was thought to have lost it has not."""
        if session in self._suspects:
            raise InvariantViolationError("one holder", self._suspects[session])

    def _session_over(self, session: ShareSession) -> None:
        now_ms = self._now_ms()
        self._suspects.pop(session, None)
        asked_ms, partitions = self._asking.pop(session, (0, ()))
        for partition in partitions:
            shared = self._partitions[partition]
            shared.lost_ms.append(asked_ms)
            for record in shared.records.values():
                record.free_ms = max(record.free_ms, now_ms + self._lock_ms)
        for shared in self._partitions.values():
            for record in shared.records.values():
                if record.holder == session:
                    record.holder = None

    # Where a share-partition starts.

    def _start_found(self, event: ShareStartFound) -> None:
        shared = self._partitions[event.partition]
        is_stale = self._coordinators_since_ms >= shared.start_found_ms
        if event.offset < shared.start and event.asked_ms > shared.start_found_ms and not is_stale:
            detail = f"it starts at {event.offset}; at {shared.start_found_ms} ms it was {shared.start}"
            self._convict("start stays", event.partition, event.offset, detail)
        if event.offset >= shared.start:
            shared.start, shared.start_found_ms = event.offset, self._now_ms()
        for offset in range(event.offset):
            record = shared.records.get(offset)
            if record is not None and not self._may_be_finished(event.partition, record):
                detail = f"the start is {event.offset}; it was delivered {record.count} times, and not finished"
                self._convict("finished first", event.partition, offset, detail)

    def _convict(self, invariant: str, partition: TopicPartition, offset: int, detail: str) -> None:
        raise InvariantViolationError(invariant, f"{partition}: offset {offset}: {detail}")

    # In the end.

    def left(self, partition: TopicPartition, end: int) -> list[int]:
        """The offsets below the end that members still have to finish."""
        return [] if self.is_over else [offset for offset in range(end) if not self._may_be_done(partition, offset)]

    def _may_be_done(self, partition: TopicPartition, offset: int) -> bool:
        shared = self._partitions[partition]
        record = shared.records.get(offset)
        return len(shared.lost_ms) >= self._limit if record is None else self._may_be_finished(partition, record)

    def anomalies(self, logs: Mapping[str, FinalLog], sent_ms: Mapping[int, int]) -> list[Anomaly]:
        """What was never delivered, or otherwise than the log has it; `sent_ms` says when each value was sent first."""
        found: list[Anomaly] = []
        if self.is_over:
            return found
        for partition, shared in self._partitions.items():
            for offset, value in sorted(logs[str(partition)].values.items()):
                record = shared.records.get(offset)
                lost = sum(1 for asked_ms in shared.lost_ms if asked_ms + self._lock_ms >= sent_ms.get(value, 0))
                if record is None and lost < self._limit:
                    detail = f"offset {offset} was never delivered; fetches were lost {lost} times"
                    found.append(Anomaly("delivered", str(partition), detail))
                elif record is not None and record.value != value:
                    detail = f"offset {offset} is {value}, and was delivered as {record.value}"
                    found.append(Anomaly("as in the log", str(partition), detail))
        return found
