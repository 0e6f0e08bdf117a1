"""Each anomaly of the table on a history made by hand; and what looks like one but is permitted."""

from __future__ import annotations

from tierfetch.sim.judges.core.acknowledged_writes import FinalLog, Verdict, check_history
from tierfetch.sim.judges.core.allowed_losses import AllowedLoss, AllowedLosses
from tierfetch.sim.judges.core.history import ACKS_ALL, History, Poll, Send, TransactionEnd

P = "t-0"


def sent(
    *values: int, at: int = -1, acks: int = ACKS_ALL, process: str = "p", ms: int = 10, txn: int | None = None
) -> Send:
    """A send that was answered with base offset `at`, or never (-1)."""
    send = Send(process, P, values, acks, ms - 5, txn)
    if at >= 0:
        send.ok(at, ms, ms)
    return send


def failed(*values: int) -> Send:
    send = Send("p", P, values, ACKS_ALL, 5)
    send.fail("INVALID_RECORD", 10)
    return send


def polled(records: dict[int, int], *, at: int = 0, ms: int = 20, committed: bool = False, end: int = -1) -> Poll:
    last = end if end >= 0 else max(records, default=at - 1) + 1
    return Poll("c", P, at, last, tuple(records.items()), ms, ms, committed)


def log(*values: int, start: int = 0) -> dict[str, FinalLog]:
    return {P: FinalLog(P, start, start + len(values), dict(enumerate(values, start)))}


def kinds(history: History, logs: dict[str, FinalLog], *allowed: AllowedLoss) -> list[str]:
    return [anomaly.kind for anomaly in verdict(history, logs, *allowed).anomalies]


def verdict(history: History, logs: dict[str, FinalLog], *allowed: AllowedLoss) -> Verdict:
    return check_history(history, logs, {P: AllowedLosses(allowed)})


def test_a_history_without_anomaly() -> None:
    history = History([sent(1, 2, at=0), sent(3, at=2, ms=20)], [polled({0: 1, 1: 2, 2: 3})])
    assert verdict(history, log(1, 2, 3)) == Verdict((), 3, 0)


def test_lost_write_where_the_log_goes_on() -> None:
    assert kinds(History([sent(1, at=0), sent(2, at=1, ms=20)]), log(1, 7)) == [
        "lost write",
        "inconsistent offsets",
        "aborted read",
    ]


def test_an_offset_that_no_log_has_is_no_acknowledgement() -> None:
    nowhere = sent(1)
    nowhere.ok(-1, 10, 10)
    assert kinds(History([nowhere]), log(1)) == ["lost write"]


def test_unobserved_where_the_log_ends_below() -> None:
    assert kinds(History([sent(1, at=0), sent(2, at=1, ms=20)]), log(1)) == ["unobserved"]


def test_acks_of_the_leader_alone_promise_nothing() -> None:
    assert kinds(History([sent(1, at=0, acks=1)]), {P: FinalLog(P, 0, 0, {})}) == []


def lost(from_offset: int, end_offset: int, *, at_ms: int = 30, until_ms: int | None = 40) -> AllowedLoss:
    return AllowedLoss(from_offset=from_offset, end_offset=end_offset, at_ms=at_ms, until_ms=until_ms)


def test_an_excuse_covers_what_was_lost_and_nothing_that_came_later() -> None:
    history = History([sent(1, at=0, ms=10), sent(2, at=1, ms=20)])
    assert verdict(history, log(1), lost(1, 2)) == Verdict((), 2, 1)
    assert kinds(history, log(1), lost(2, 3)) == ["unobserved"]
    late = History([sent(1, at=0, ms=10), sent(2, at=1, ms=100)])
    assert kinds(late, log(1), lost(1, 2)) == ["unobserved"]


def test_an_excuse_covers_nothing_above_what_was_lost() -> None:
    history = History([sent(1, at=0, ms=10), sent(2, at=1, ms=20), sent(3, at=2, ms=25)])
    assert kinds(history, log(1), lost(1, 2)) == ["unobserved"]
    assert kinds(history, log(1), lost(1, 3)) == []


def test_what_was_read_after_everybody_knew_of_a_loss_is_judged_again() -> None:
    sends = [sent(1, at=0, ms=10), sent(2, at=1, ms=20), sent(5, at=1, ms=90)]
    stale = polled({0: 1, 1: 2}, ms=39)
    assert kinds(History(sends, [stale]), log(1, 5), lost(1, 2)) == []
    assert kinds(History(sends, [polled({0: 1, 1: 2}, ms=41)]), log(1, 5), lost(1, 2)) == ["inconsistent offsets"]


def test_a_reader_may_go_back_to_what_was_lost_and_no_further() -> None:
    sends = [sent(1, at=0, ms=10), sent(2, at=1, ms=20), sent(3, at=1, ms=90)]
    first, again = polled({0: 1, 1: 2}, ms=20), polled({1: 3}, at=1, ms=100)
    assert kinds(History(sends, [first, again]), log(1, 3), lost(1, 2)) == []
    further = polled({0: 1, 1: 3}, at=0, ms=100)
    assert kinds(History(sends, [first, further]), log(1, 3), lost(1, 2)) == ["nonmonotonic poll"]
    assert kinds(History(sends, [first, again]), log(1, 3), lost(0, 1)) == [
        "lost write",
        "inconsistent offsets",
        "nonmonotonic poll",
        "nonmonotonic send",
    ]


def test_a_producer_is_told_no_lower_offset_than_what_was_lost() -> None:
    before, after = sent(1, 2, at=0, ms=10), sent(3, at=1, ms=90)
    assert kinds(History([before, after]), log(1, 3), lost(1, 2)) == []
    lower = sent(3, at=0, ms=90)
    assert "nonmonotonic send" in kinds(History([before, lower]), log(3), lost(1, 2))


def test_inconsistent_offsets_between_readers() -> None:
    history = History([sent(1, acks=1), sent(2, acks=1)], [polled({0: 1}), polled({0: 2}, ms=30)])
    assert "inconsistent offsets" in kinds(history, log(2))


def test_duplicate() -> None:
    assert kinds(History([sent(1, at=0)]), log(1, 1)) == ["duplicate"]


def test_nonmonotonic_poll_within_and_between_polls() -> None:
    sends = [sent(1, at=0), sent(2, at=1, ms=20)]
    assert kinds(History(sends, [polled({1: 2, 0: 1}, end=2)]), log(1, 2)) == ["nonmonotonic poll"]
    twice = [polled({0: 1, 1: 2}), polled({1: 2}, at=1, ms=30)]
    assert kinds(History(sends, twice), log(1, 2)) == ["nonmonotonic poll"]


def test_poll_skip() -> None:
    history = History([sent(1, at=0), sent(2, at=1, ms=20)], [polled({1: 2}, at=0)])
    assert kinds(history, log(1, 2)) == ["poll skip"]


def test_nonmonotonic_send() -> None:
    history = History([sent(1, at=1, ms=10), sent(2, at=0, ms=30)])
    assert kinds(history, log(2, 1)) == ["nonmonotonic send"]


def test_aborted_reads() -> None:
    assert kinds(History([failed(1)], [polled({0: 1})]), log(1)) == ["aborted read", "aborted read"]
    assert kinds(History([sent(1, at=0)], [polled({0: 9})]), log(1)) == ["inconsistent offsets", "aborted read"]


def test_read_committed_sees_no_open_and_no_aborted_transaction() -> None:
    sends = [sent(1, at=0, txn=7)]
    reads = [polled({0: 1}, committed=True)]
    assert kinds(History(sends, reads), log(1)) == ["uncommitted read"]
    assert kinds(History(sends, reads, [TransactionEnd(7, False, P)]), log(1)) == ["aborted read"]
    assert kinds(History(sends, reads, [TransactionEnd(7, True, P)]), log(1)) == []


def test_an_abort_whose_marker_may_be_lost_may_have_become_a_commit() -> None:
    """The producer's next transaction goes on with what was left open."""
    reads = [polled({0: 1}, committed=True)]
    aborted = History([sent(1, at=0, txn=7)], reads, [TransactionEnd(7, False, P, 15)])
    assert kinds(aborted, log(1), AllowedLoss(from_offset=1, end_offset=3, at_ms=15)) == []
    assert kinds(aborted, log(1), AllowedLoss(from_offset=1, end_offset=3, at_ms=14)) == ["aborted read"]
    assert kinds(aborted, log(1), AllowedLoss(from_offset=0, end_offset=0, at_ms=20)) == ["aborted read"]


def test_a_read_committed_reader_is_shown_what_was_committed() -> None:
    sends = [sent(1, at=0), sent(2, at=1, ms=20, txn=7), sent(3, at=2, ms=30, txn=8)]
    ends = [TransactionEnd(7, True, P), TransactionEnd(8, False, P)]
    assert kinds(History(sends, [polled({0: 1, 1: 2}, end=3, committed=True)], ends), log(1, 2, 3)) == []
    for shown in ({0: 1}, {1: 2}):
        history = History(sends, [polled(shown, end=3, committed=True)], ends)
        assert kinds(history, log(1, 2, 3)) == ["poll skip"]
        assert kinds(history, log(1, 2, 3), lost(5, 6)) == [], "the marker may have been lost, and another one is there"


def test_nothing_may_expire_unless_told() -> None:
    assert kinds(History([sent(1, at=0)]), log(2, start=1)) == ["aborted read", "truncated start"]


def test_a_partition_that_cannot_be_read_is_an_anomaly() -> None:
    assert kinds(History([sent(1, at=0)]), {}) == ["unobserved"]


def of_producer(*sends: tuple[int, int, int]) -> History:
    """Value, offset (-1: no answer) and sequence of the batches of one producer id."""
    made = [sent(value, at=at) for value, at, _ in sends]
    for send, (_, _, sequence) in zip(made, sends, strict=True):
        send.producer_id, send.sequence = 7, sequence
    return History(made)


def test_batches_of_a_producer_follow_each_other() -> None:
    assert kinds(of_producer((1, 0, 0), (2, -1, 1), (3, 2, 2)), log(1, 2, 3)) == []
    assert kinds(of_producer((1, -1, 0), (2, 0, 1), (3, 1, 2)), log(2, 3)) == []
    assert kinds(of_producer((1, 0, 0), (2, -1, 1), (3, 1, 2)), log(1, 3)) == ["broken sequence"]
    assert kinds(of_producer((1, -1, 0), (2, -1, 1)), log(2, 1)) == ["broken sequence"]


def resent(*, began: int, others: tuple[tuple[int, int, int], ...] = (), producer_id: int = 7) -> list[str]:
    """A value is read at 1, expires, and is found at 6, in a log that began there; the log starts at 4."""
    history = of_producer((1, 6, 3), *others)
    for send in history.sends:
        send.producer_id = producer_id
    history.polls.append(polled({1: 1}, at=1))
    logs = {P: FinalLog(P, 4, 7, {6: 1} | {at: value for value, at, _ in others if at >= 4})}
    return [each.kind for each in check_history(history, logs, expires=True, began={P: lambda _: began}).anomalies]


def test_a_log_that_began_above_a_batch_may_take_it_again() -> None:
    assert resent(began=2) == []
    assert resent(began=4, others=((0, 5, 2),)) == [], "the batch before it was sent again, too"
    assert resent(began=4, others=((2, 3, 4),)) == [], "the one after it has expired as well"


def test_a_log_that_had_a_batch_never_takes_it_again() -> None:
    assert resent(began=1) == ["duplicate"]
    assert resent(began=0) == ["duplicate"]


def test_a_log_that_had_a_later_batch_of_the_producer_takes_no_earlier_one() -> None:
    assert "duplicate" in resent(began=4, others=((2, 4, 4),))
    assert "duplicate" in resent(began=4, others=((2, 5, 4),))


def test_what_no_producer_id_was_sent_with_is_never_excused() -> None:
    assert resent(began=4, producer_id=-1) == ["duplicate"]
