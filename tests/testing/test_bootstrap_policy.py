"""The conformance suite of bootstrap policies: ours pass, and each rule has a policy that it catches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tierfetch.fetcher.core.bootstrap import (
    AdoptFromTier,
    AskOffsets,
    BootstrapPolicy,
    Decision,
    Plan,
    RetryLater,
    Situation,
    StartAt,
    Trigger,
    TruncateTo,
)
from tierfetch.fetcher.core.policies import (
    BoundedLocal,
    BoundedLocalConfig,
    EarliestPendingUpload,
    LocalLogStart,
    LogStart,
    TierFirst,
)
from tierfetch.testing import BootstrapPolicyConformance
from tierfetch.testing.bootstrap_policy import LEADERS

EMPTY = Situation(trigger=Trigger.ASSIGNED, log_end_offset=0, is_tiered=True, is_never_in_isr=True)


class TestLogStart(BootstrapPolicyConformance):
    @pytest.fixture
    def policy(self) -> BootstrapPolicy:
        return LogStart()


class TestLocalLogStart(BootstrapPolicyConformance):
    @pytest.fixture
    def policy(self) -> BootstrapPolicy:
        return LocalLogStart()


class TestTierFirst(BootstrapPolicyConformance):
    @pytest.fixture
    def policy(self) -> BootstrapPolicy:
        return TierFirst()


class TestBoundedLocal(BootstrapPolicyConformance):
    @pytest.fixture
    def policy(self) -> BootstrapPolicy:
        return BoundedLocal(BoundedLocalConfig(bytes=1))


class TestEarliestPendingUpload(BootstrapPolicyConformance):
    waits_for_uploads = True  # as KIP-1023 has it, also where everything is tiered

    @pytest.fixture
    def policy(self) -> BootstrapPolicy:
        return EarliestPendingUpload()


class Wrong:
    """A policy that asks once and decides what it was made with."""

    name = "wrong"

    def __init__(self, decide: Callable[[], Decision]) -> None:
        self._decide = decide

    def plan(self, situation: Situation) -> Plan:
        yield AskOffsets((-1, -2))
        return self._decide()


@pytest.mark.parametrize(
    ("decision", "check", "said"),
    [
        (StartAt(1), "test_keeps_the_rules", "decided to start at 1, above the leader's log start (0)"),
        (AdoptFromTier(1, 150, 0), "test_keeps_the_rules", "decided to adopt from 1, above the leader's log start (0)"),
        (TruncateTo(200), "test_keeps_the_rules", "to truncate to 200, though the leader did not refuse"),
        (None, "test_keeps_the_rules", "decided None, which is no decision"),
        (AdoptFromTier(0, 151, 0), "test_adopts_only_what_is_tiered", "start_offset=151"),
        (RetryLater("later"), "test_does_not_wait_for_ever", "RetryLater"),
    ],
)
def test_the_suite_catches(decision: Decision, check: str, said: str) -> None:
    suite = BootstrapPolicyConformance()
    with pytest.raises(AssertionError) as caught:
        getattr(suite, check)(Wrong(lambda: decision), EMPTY, LEADERS[0])
    assert said in str(caught.value)


def test_the_suite_catches_a_policy_that_remembers() -> None:
    counted: list[int] = []

    def decide() -> Decision:
        counted.append(1)
        return RetryLater("a") if len(counted) == 1 else StartAt(0)

    with pytest.raises(AssertionError, match="and then"):
        BootstrapPolicyConformance().test_keeps_nothing_between_attempts(Wrong(decide), EMPTY, LEADERS[0])
