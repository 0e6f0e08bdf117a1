"""What a start says of its waits."""

from __future__ import annotations

import pytest

from tierfetch.protocol.net.client import Address, BrokerUnavailableError
from tierfetch.protocol.start_waits import StartWaits, Unanswered, WaitLimit, listed_reasons

ONE, TWO = Address("one", 9093), Address("two", 9093)


def test_the_innermost_wait_is_told_with_its_limit() -> None:
    waits, reasons = StartWaits(), [""]
    assert waits.line(0.0) is None
    with waits.waiting("its logs"):
        assert waits.line(0.0) == "waiting for its logs"
        with waits.waiting("a controller", lambda: reasons[0], WaitLimit(12.0, "some.timeout.ms")):
            assert waits.line(2.0) == "waiting for a controller; giving up in 10 s (some.timeout.ms)"
            reasons[0] = "one:9093 is down"
            assert waits.line(13.0) == "waiting for a controller: one:9093 is down; giving up in 0 s (some.timeout.ms)"
        assert waits.line(3.0) == "waiting for its logs"
    assert waits.line(3.0) is None


def test_a_wait_that_fails_is_over() -> None:
    waits = StartWaits()
    with pytest.raises(OSError, match="disk"), waits.waiting("its logs"):
        raise OSError("disk")
    assert waits.line(0.0) is None


def test_who_answers_again_is_not_named_any_more() -> None:
    unanswered = Unanswered()
    unanswered.failed(ONE, BrokerUnavailableError("one:9093 cannot be reached"))
    unanswered.failed(TWO, ConnectionError("the connection is lost"))
    assert unanswered.reasons() == ["one:9093 cannot be reached", "two:9093: the connection is lost"]
    assert not unanswered.has_answered(ONE)
    unanswered.answered(ONE)
    assert unanswered.reasons() == ["two:9093: the connection is lost"]
    assert unanswered.has_answered(ONE)
    assert not unanswered.has_answered(None)


def test_a_long_list_is_cut_and_names_nobody_twice() -> None:
    assert listed_reasons(["a", "b", "a"]) == "a, b"
    assert listed_reasons(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
