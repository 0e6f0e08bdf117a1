"""Each anomaly of the table on a history made by hand; and what looks like one but is permitted."""

from __future__ import annotations

from tierfetch.sim.checkers import Excuse, FinalLog, Verdict, check_history
from tierfetch.sim.history import ACKS_ALL, History, Poll, Send, TransactionEnd

P = "t-0"


def sent(
    *values: int, at: int = -1, acks: int = ACKS_ALL, process: str = "p", ms: int = 10, txn: int | None = None
) -> Send:
    """A send that was answered with base offset `at`, or never (-1)."""
    send = Send(process, P, values, acks, ms - 5, txn)
    if at >= 0:
        send.ok(at, ms)
    return send


def failed(*values: int) -> Send:
    send = Send("p", P, values, ACKS_ALL, 5)
    send.fail("INVALID_RECORD", 10)
    return send


def polled(records: dict[int, int], *, at: int = 0, ms: int = 20, committed: bool = False, end: int = -1) -> Poll:
    last = end if end >= 0 else max(records, default=at - 1) + 1
    return Poll("c", P, at, last, tuple(records.items()), ms, committed)


def log(*values: int, start: int = 0) -> dict[str, FinalLog]:
    return {P: FinalLog(P, start, start + len(values), dict(enumerate(values, start)))}


def kinds(history: History, logs: dict[str, FinalLog], *excuses: Excuse) -> list[str]:
    return [anomaly.kind for anomaly in verdict(history, logs, *excuses).anomalies]


def verdict(history: History, logs: dict[str, FinalLog], *excuses: Excuse) -> Verdict:
    return check_history(history, logs, excuses)


def test_a_history_without_anomaly() -> None:
    history = History([sent(1, 2, at=0), sent(3, at=2, ms=20)], [polled({0: 1, 1: 2, 2: 3})])
    assert verdict(history, log(1, 2, 3)) == Verdict((), 3, 0)


def test_lost_write_where_the_log_goes_on() -> None:
    assert kinds(History([sent(1, at=0), sent(2, at=1, ms=20)]), log(1, 7)) == [
        "lost write",
        "inconsistent offsets",
        "aborted read",
    ]


def test_unobserved_where_the_log_ends_below() -> None:
    assert kinds(History([sent(1, at=0), sent(2, at=1, ms=20)]), log(1)) == ["unobserved"]


def test_acks_of_the_leader_alone_promise_nothing() -> None:
    assert kinds(History([sent(1, at=0, acks=1)]), {P: FinalLog(P, 0, 0, {})}) == []


def test_an_excuse_covers_what_was_acknowledged_before_it_and_above_it() -> None:
    history = History([sent(1, at=0, ms=10), sent(2, at=1, ms=20)])
    assert verdict(history, log(1), Excuse(P, 1, 30)) == Verdict((), 2, 1)
    assert kinds(history, log(1), Excuse(P, 2, 30)) == ["unobserved"]
    late = History([sent(1, at=0, ms=10), sent(2, at=1, ms=2_000)])
    assert kinds(late, log(1), Excuse(P, 1, 30)) == ["unobserved"]


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


def test_nothing_may_expire_unless_told() -> None:
    assert kinds(History([sent(1, at=0)]), log(2, start=1)) == ["aborted read", "truncated start"]


def test_a_partition_that_cannot_be_read_is_an_anomaly() -> None:
    assert kinds(History([sent(1, at=0)]), {}) == ["unobserved"]
