"""Judges of a finished run, in the words of Maelstrom's kafka workload. Pure: history and final log -> anomalies.

| anomaly              | found when                                                                                  |
|----------------------|---------------------------------------------------------------------------------------------|
| lost write           | a record acknowledged by all is not in the final log, which goes on above it                |
| unobserved           | a record acknowledged by all lies at or above the end of the final log                      |
| inconsistent offsets | two different values were seen at one offset, by senders, readers or the final log          |
| duplicate            | one value is in the final log, or was read, at two offsets                                  |
| nonmonotonic poll    | a reader was given an offset below one it had been given, or below the one it asked for     |
| poll skip            | a reader was led past a record that it should have been given: a read-committed one where   |
|                      | nothing was lost, past one of no transaction, or of one that was to be committed            |
| nonmonotonic send    | a producer's later send, made after the earlier was acknowledged, is at a lower offset      |
| broken sequence      | of one producer id, a batch in the final log is not the one that follows the one before it  |
| aborted read         | a value was read whose send failed, that nobody sent, or (read committed) that was aborted  |
| uncommitted read     | a value of a transaction without a commit marker was read by a read-committed reader        |
| truncated start      | the final log begins above 0 although nothing may expire                                    |

A duplicate is excused where no leader can distinguish an idempotent producer from a new one: the log of the leader that
took the second copy had begun, without the producer, above the first one (`clients.beginnings`), and has had no later
batch of it.

Losses that the fault model allows (`allowed_losses`) are computed at the time of the fault
(`lost_copies`): they cover the records that were lost then, and nothing that was sent afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise

from ....light_dataclass import dataclass
from .allowed_losses import AllowedLosses
from .history import History, Outcome, Poll, Send


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that must not be."""

    kind: str
    partition: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.partition}: {self.detail}"


@dataclass(frozen=True, slots=True)
class FinalLog:
    """A partition after convergence, read as a client reads it: [start_offset, end_offset) and value by offset."""

    partition: str
    start_offset: int
    end_offset: int
    values: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checkers found, of how much."""

    anomalies: tuple[Anomaly, ...]
    records_checked: int
    records_excused: int


def check_history(
    history: History,
    logs: Mapping[str, FinalLog],
    allowed: Mapping[str, AllowedLosses] | None = None,
    *,
    expires: bool = False,
    began: Mapping[str, Callable[[int], int]] | None = None,
) -> Verdict:
    """All the rows of the table, `allowed` by partition. `expires`: retention may have taken the logs' beginnings.
    `began`, by partition: of an offset, the log start with which the log had begun into which a leader appended it.
    """
    anomalies: list[Anomaly] = []
    checked = excused = 0
    for partition in history.partitions:
        sends = [send for send in history.sends if send.partition == partition]
        polls = [poll for poll in history.polls if poll.partition == partition]
        log = logs.get(partition)
        if log is None:
            anomalies.append(Anomaly("unobserved", partition, "it could not be read at the end"))
            continue
        forgiven = _Forgiven((allowed or {}).get(partition, AllowedLosses()), sends)
        acknowledged = [send for send in sends if send.is_acknowledged_by_all]
        for send in acknowledged:
            lost = list(_lost(send, log))
            unforgiven = [each for offset, each in lost if not forgiven.has_sent(send, offset)]
            excused += len(lost) - len(unforgiven)
            checked += len(send.values)
            anomalies += unforgiven
        anomalies += _inconsistent_offsets(log, acknowledged, polls, forgiven)
        anomalies += _duplicates(log, sends, polls, forgiven, (began or {}).get(partition, lambda _: 0))
        anomalies += _polls_in_order(log, polls, forgiven)
        anomalies += _skipped(log, polls, forgiven, _for_committed_readers(history, log, sends, forgiven))
        anomalies += _sends_in_order(partition, sends, forgiven)
        anomalies += _sequences(log, sends)
        anomalies += _aborted_reads(history, log, sends, polls, forgiven)
        if log.start_offset > 0 and not expires:
            anomalies.append(Anomaly("truncated start", partition, f"it begins at {log.start_offset}"))
    return Verdict(tuple(anomalies), checked, excused)


class _Forgiven:
    """What the allowed of one partition cover, given when each of its values was sent."""

    def __init__(self, allowed: AllowedLosses, sends: list[Send]) -> None:
        self.allowed = allowed
        self._sent_ms = {value: send.invoked_ms for send in sends for value in send.values}

    def has_sent(self, send: Send, offset: int) -> bool:
        """What was acknowledged at `offset` may be lost."""
        return self.allowed.covers(offset, send.invoked_ms, send.asked_ms)

    def has_read(self, poll: Poll, offset: int, value: int) -> bool:
        """What was read at `offset` may be lost. A value that was never sent is not excused."""
        sent_ms = self._sent_ms.get(value)
        return sent_ms is not None and self.allowed.covers(offset, sent_ms, poll.asked_ms)


def _lost(send: Send, log: FinalLog) -> Iterator[tuple[int, Anomaly]]:
    """Yield what is lost of a send, with its offset."""
    for offset, value in send.offsets().items():
        if 0 <= offset < log.start_offset or log.values.get(offset) == value:
            continue
        kind = "unobserved" if offset >= log.end_offset else "lost write"
        there = f"{log.values[offset]} is there" if offset in log.values else f"the log ends at {log.end_offset}"
        detail = f"{value} at {offset}, sent by {send.process}, acknowledged at {send.completed_ms} ms; {there}"
        yield offset, Anomaly(kind, log.partition, detail)


def _inconsistent_offsets(
    log: FinalLog, acknowledged: list[Send], polls: list[Poll], forgiven: _Forgiven
) -> Iterator[Anomaly]:
    seen: dict[int, dict[int, str]] = {}
    for offset, value in log.values.items():
        seen.setdefault(offset, {}).setdefault(value, "the final log")
    for send in acknowledged:
        for offset, value in send.offsets().items():
            if not forgiven.has_sent(send, offset):
                seen.setdefault(offset, {}).setdefault(value, f"sent by {send.process}")
    for poll in polls:
        for offset, value in poll.records:
            if not forgiven.has_read(poll, offset, value):
                seen.setdefault(offset, {}).setdefault(value, f"read by {poll.process} at {poll.completed_ms} ms")
    for offset, values in sorted(seen.items()):
        if len(values) > 1:
            yield Anomaly("inconsistent offsets", log.partition, f"offset {offset}: {values}")


def _duplicates(
    log: FinalLog, sends: list[Send], polls: list[Poll], forgiven: _Forgiven, began: Callable[[int], int]
) -> Iterator[Anomaly]:
    places: dict[int, set[int]] = {}
    for offset, value in log.values.items():
        places.setdefault(value, set()).add(offset)
    for poll in polls:
        for offset, value in poll.records:
            if not forgiven.has_read(poll, offset, value):
                places.setdefault(value, set()).add(offset)
    for value, offsets in sorted(places.items()):
        pairs = pairwise(sorted(offsets))
        if any(not _was_forgotten(value, *pair, began(pair[1]), sends, places) for pair in pairs):
            yield Anomaly("duplicate", log.partition, f"{value} is at offsets {sorted(offsets)}")


def _was_forgotten(
    value: int, first: int, second: int, began: int, sends: list[Send], places: Mapping[int, set[int]]
) -> bool:
    """Whether a log that had begun at `began` can know nothing of a value's producer when it takes its second copy."""
    send = next((send for send in sends if value in send.values), None)
    if send is None or send.producer_id < 0 or first >= began:
        return False
    later = {
        offset
        for each in sends
        if each.producer_id == send.producer_id
        and (each.producer_epoch, each.sequence) > (send.producer_epoch, send.sequence)
        for offset in (*each.offsets(), *(place for sent in each.values for place in places.get(sent, ())))
    }
    return not any(began <= offset < second for offset in later)


def _polls_in_order(log: FinalLog, polls: list[Poll], forgiven: _Forgiven) -> Iterator[Anomaly]:
    last: dict[str, Poll] = {}
    for poll in polls:
        before = last.get(poll.process)
        offsets = [offset for offset, _ in poll.records]
        floor = poll.from_offset
        if before is not None:
            floor = max(floor, forgiven.allowed.floor(before.end_offset, before.asked_ms, poll.completed_ms))
        if offsets != sorted(set(offsets)) or any(offset < floor for offset in offsets):
            detail = f"{poll.process} asked from {poll.from_offset}, after {floor - 1}, and was given {offsets}"
            yield Anomaly("nonmonotonic poll", log.partition, detail)
        last[poll.process] = poll


def _skipped(
    log: FinalLog, polls: list[Poll], forgiven: _Forgiven, for_committed_readers: Collection[int]
) -> Iterator[Anomaly]:
    for poll in polls:
        wanted = for_committed_readers if poll.is_read_committed else log.values
        given = {offset for offset, _ in poll.records}
        skipped = [
            offset
            for offset in range(max(poll.from_offset, log.start_offset), poll.end_offset)
            if offset in wanted and offset not in given and not forgiven.allowed.may_hide(offset, poll.asked_ms)
        ]
        if skipped:
            yield Anomaly("poll skip", log.partition, f"{poll.process} went to {poll.end_offset} past {skipped}")


def _for_committed_readers(history: History, log: FinalLog, sends: list[Send], forgiven: _Forgiven) -> Collection[int]:
    """Offsets that nothing may hide from them. Where something was lost it may have been a marker."""
    if forgiven.allowed:
        return frozenset()
    decided = {None, *(end.transaction for end in history.ends if end.is_commit and end.is_certain)}
    shown = {value for send in sends if send.transaction in decided for value in send.values}
    return frozenset(offset for offset, value in log.values.items() if value in shown)


def _sends_in_order(partition: str, sends: list[Send], forgiven: _Forgiven) -> Iterator[Anomaly]:
    last: dict[str, Send] = {}
    for send in sends:
        if send.outcome is not Outcome.OK or send.acks == 0:
            continue
        before = last.get(send.process)
        is_after = before is not None and before.acks == send.acks and before.completed_ms <= send.invoked_ms
        if before is not None and is_after and send.acks != 1:
            end = before.base_offset + len(before.values)
            if send.base_offset < forgiven.allowed.floor(end, before.asked_ms, send.completed_ms):
                detail = f"{send.process} was told {before.base_offset}, then {send.base_offset}"
                yield Anomaly("nonmonotonic send", partition, detail)
        last[send.process] = send


def _sequences(log: FinalLog, sends: list[Send]) -> Iterator[Anomaly]:
    """The first one that is there may be any: those before it were lost, or have expired. No loss covers the rest:
    a replica that lost a batch has lost those after it, too.
    """
    sent = {send.values[0]: send for send in sends if send.producer_id >= 0}
    expected: dict[tuple[int, int], int] = {}
    for offset, value in sorted(log.values.items()):
        send = sent.get(value)
        if send is None:
            continue
        producer = send.producer_id, send.producer_epoch
        wanted = expected.get(producer, send.sequence)
        if send.sequence != wanted:
            detail = f"{send.process}'s batch of sequence {send.sequence} is at {offset}, where {wanted} is the next"
            yield Anomaly("broken sequence", log.partition, detail)
        expected[producer] = send.sequence + len(send.values)


def _aborted_reads(
    history: History, log: FinalLog, sends: list[Send], polls: list[Poll], forgiven: _Forgiven
) -> Iterator[Anomaly]:
    sent = {value: send for send in sends for value in send.values}
    committed = {end.transaction for end in history.ends if end.is_commit}
    aborted_ms = {end.transaction: end.invoked_ms for end in history.ends if not end.is_commit}
    readers = [(poll.process, poll.records, poll.is_read_committed) for poll in polls]
    for process, records, is_read_committed in [*readers, ("the final log", tuple(log.values.items()), False)]:
        for offset, value in records:
            send = sent.get(value)
            where = f"{value} at {offset} was read by {process}"
            if send is None:
                yield Anomaly("aborted read", log.partition, f"{where}: nobody sent it to this partition")
            elif send.outcome is Outcome.FAIL:
                yield Anomaly("aborted read", log.partition, f"{where}: its send failed ({send.reason})")
            elif is_read_committed and send.transaction is not None and send.transaction not in committed:
                ended_ms = aborted_ms.get(send.transaction)
                if ended_ms is not None and forgiven.allowed.may_lack_marker_above(offset, ended_ms):
                    continue
                kind = "uncommitted read" if ended_ms is None else "aborted read"
                yield Anomaly(kind, log.partition, f"{where}: transaction {send.transaction} was not committed")
