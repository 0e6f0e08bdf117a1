"""What every bootstrap policy must do (`fetcher/core/policy_rules.py`). Ships with the wheel.

    from tierfetch.testing import BootstrapPolicyConformance

    class TestMyPolicy(BootstrapPolicyConformance):
        @pytest.fixture
        def policy(self):
            return MyPolicy(MyPolicy.Config(...))

A policy is pure: it asks, is answered, and decides. The suite converses with it as a leader of many kinds: an old one,
one that does not know its uploads yet, one whose whole log is tiered, an empty one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tierfetch.fetcher.core import (
    ANSWERS,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    AdoptFromTier,
    Answer,
    AskEpochEnd,
    AskOffsets,
    AskRemoteSegments,
    BootstrapPolicy,
    Decision,
    Offsets,
    Question,
    RemoteSegments,
    RetryLater,
    Situation,
    Trigger,
    broken_rule,
)
from tierfetch.log.core import EpochEnd
from tierfetch.remote.core import OffsetAndEpoch

from ..light_dataclass import dataclass

QUESTIONS_MAX: Final = 16
"""Questions of one attempt: each is a request to the leader of every partition that bootstraps."""
LATER_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class PolicyLeader:
    """A leader as a policy sees it. Its log is of leader epoch 0; an offset is None where the leader is too old to know
    the timestamp, and -1 where it does not know the offset yet.
    """

    name: str
    log_start: int
    local_start: int
    pending: int | None
    tiered_end: int
    log_end: int

    def answer(self, question: Question) -> Answer:
        """Return what this leader, or the remote log metadata, answers."""
        match question:
            case AskOffsets(timestamps):
                return Offsets({timestamp: self._offset(timestamp) for timestamp in timestamps})
            case AskEpochEnd():
                return EpochEnd(0, self.log_end)
            case AskRemoteSegments():
                return RemoteSegments(())

    def _offset(self, timestamp: int) -> OffsetAndEpoch | None:
        offset = {
            EARLIEST_TIMESTAMP: self.log_start,
            LATEST_TIMESTAMP: self.log_end,
            EARLIEST_LOCAL_TIMESTAMP: self.local_start,
            LATEST_TIERED_TIMESTAMP: self.tiered_end - 1,
            EARLIEST_PENDING_UPLOAD_TIMESTAMP: self.pending,
        }.get(timestamp, -1)
        return None if offset is None else OffsetAndEpoch(offset, 0 if offset >= 0 else -1)


LEADERS: Final = (
    PolicyLeader("partly tiered", log_start=0, local_start=100, pending=150, tiered_end=150, log_end=200),
    PolicyLeader("all tiered", log_start=0, local_start=200, pending=-1, tiered_end=200, log_end=200),
    PolicyLeader("nothing tiered", log_start=0, local_start=0, pending=-1, tiered_end=0, log_end=200),
    PolicyLeader("log start above the tier", log_start=160, local_start=160, pending=150, tiered_end=150, log_end=200),
    PolicyLeader("before KIP-1023", log_start=0, local_start=100, pending=None, tiered_end=150, log_end=200),
    PolicyLeader("has not read its uploads", log_start=0, local_start=100, pending=-1, tiered_end=0, log_end=200),
    PolicyLeader("empty", log_start=0, local_start=0, pending=0, tiered_end=0, log_end=0),
    PolicyLeader("empty, expired", log_start=200, local_start=200, pending=-1, tiered_end=200, log_end=200),
)
SITUATIONS: Final = tuple(
    Situation(trigger=trigger, log_end_offset=end, is_tiered=True, is_never_in_isr=True)
    for trigger in Trigger
    for end in (0, 120, 400)
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a policy asked, the offsets that it was given, and what it decided."""

    asked: tuple[Question, ...]
    known: dict[int, OffsetAndEpoch]
    decision: Decision


def attempt(policy: BootstrapPolicy, situation: Situation, leader: PolicyLeader) -> Attempt:
    """Converse once. AssertionError for what is no question, or too many of them."""
    asked: list[Question] = []
    known: dict[int, OffsetAndEpoch] = {}
    plan = policy.plan(situation)
    try:
        question = next(plan)
        while True:
            assert type(question) in ANSWERS, f"{question!r} is no question: AskOffsets, AskEpochEnd, AskRemoteSegments"
            asked.append(question)
            assert len(asked) <= QUESTIONS_MAX, f"more than {QUESTIONS_MAX} questions in one attempt: {asked}"
            answer = leader.answer(question)
            if isinstance(answer, Offsets):
                known |= {timestamp: offset for timestamp in answer.by_timestamp if (offset := answer.known(timestamp))}
            question = plan.send(answer)
    except StopIteration as end:
        return Attempt(tuple(asked), known, end.value)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: f"{each.trigger.value} at {each.log_end_offset}")
@pytest.mark.parametrize("leader", LEADERS, ids=lambda each: each.name)
class BootstrapPolicyConformance:
    """Give it a `policy` fixture."""

    waits_for_uploads = False
    """Whether the policy waits as long as the leader knows no earliest pending upload, though all of it is tiered."""

    @pytest.fixture
    def policy(self) -> BootstrapPolicy:
        """Return the policy to check."""
        raise NotImplementedError("give the suite a fixture `policy`")

    def test_keeps_the_rules(self, policy: BootstrapPolicy, situation: Situation, leader: PolicyLeader) -> None:
        """A start above the log start would be a gap, and a cut elsewhere than at the leader's end a loss."""
        done = attempt(policy, situation, leader)
        broken = broken_rule(situation, done.known, done.decision)
        assert broken is None, f"{policy.name} decided {broken}"

    def test_adopts_only_what_is_tiered(
        self, policy: BootstrapPolicy, situation: Situation, leader: PolicyLeader
    ) -> None:
        """What is adopted is read from the tier: a start beyond its end never succeeds, and is tried for ever."""
        decision = attempt(policy, situation, leader).decision
        if isinstance(decision, AdoptFromTier):
            assert decision.start_offset <= max(leader.tiered_end, leader.local_start), decision

    def test_keeps_nothing_between_attempts(
        self, policy: BootstrapPolicy, situation: Situation, leader: PolicyLeader
    ) -> None:
        """The same situation and answers give the same decision: a policy has no state, no clock and no chance."""
        first = attempt(policy, situation, leader)
        attempt(policy, replace(situation, log_end_offset=0), LEADERS[0])
        second = attempt(policy, situation, leader)
        assert second == first, f"{first} and then {second}"

    def test_does_not_wait_for_ever(self, policy: BootstrapPolicy, situation: Situation, leader: PolicyLeader) -> None:
        """An hour after the first attempt it decides, unless the leader cannot say where to begin."""
        unknown = leader.pending == -1 and leader.local_start > leader.log_start
        if unknown and (self.waits_for_uploads or leader.tiered_end == 0):
            pytest.skip("this leader does not know its uploads: to wait for it is right")
        late = replace(situation, elapsed_ms=LATER_MS, now_ms=LATER_MS)
        decision = attempt(policy, late, leader).decision
        assert not isinstance(decision, RetryLater), decision

    def test_has_a_name(self, policy: BootstrapPolicy, situation: Situation, leader: PolicyLeader) -> None:
        """The name stands in logs and in metrics."""
        assert policy.name
        assert not set(policy.name) - set("abcdefghijklmnopqrstuvwxyz0123456789-"), "lower case and hyphens"
