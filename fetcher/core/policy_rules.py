"""What a bootstrap policy may decide, given what its leader has returned; a policy that is a plugin is held to it.

    decision        is allowed
    --------------  ---------------------------------------------------------------------------------------------------
    ResumeFetch     always: a leader refuses what it does not have
    RetryLater      always
    StartAt         at or below the log start that the leader returned: above it the replica would have a gap
    AdoptFromTier   with that log start or a lower one: records above it would be lost to a later leader
    TruncateTo      at the log end that the leader returned, after OFFSET_OUT_OF_RANGE

A policy that breaks a rule, or raises an error of its own, is reported, and this attempt goes by KIP-405. The leader's
errors pass through: they are worth another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...light_dataclass import dataclass
from ...log.core import EpochEnd
from ...protocol import OUTSIDE
from ...remote.core import OffsetAndEpoch
from .bootstrap import (
    AdoptFromTier,
    Answer,
    AskEpochEnd,
    AskOffsets,
    AskRemoteSegments,
    BootstrapPolicy,
    Decision,
    Offsets,
    Plan,
    Question,
    RemoteSegments,
    ResumeFetch,
    RetryLater,
    Situation,
    StartAt,
    Trigger,
    TruncateTo,
)
from .leader_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

ANSWERS: Mapping[type, type] = {AskOffsets: Offsets, AskEpochEnd: EpochEnd, AskRemoteSegments: RemoteSegments}
"""The type of the answer to each question."""


def broken_rule(situation: Situation, known: Mapping[int, OffsetAndEpoch], decision: object) -> str | None:
    """Return which rule a decision breaks, None if it is allowed. `known` has what the leader returned by timestamp."""
    log_start, log_end = known.get(EARLIEST_TIMESTAMP), known.get(LATEST_TIMESTAMP)
    match decision:
        case ResumeFetch() | RetryLater():
            return None
        case StartAt(offset):
            return _above_log_start("to start at", offset, log_start)
        case AdoptFromTier(log_start_offset, _, _):
            return _above_log_start("to adopt from", log_start_offset, log_start)
        case TruncateTo(offset):
            if situation.trigger is not Trigger.OUT_OF_RANGE:
                return f"to truncate to {offset}, though the leader did not refuse the replica's end"
            if log_end is None or log_end.offset != offset:
                return f"to truncate to {offset}, and not to the leader's log end ({_shown(log_end)})"
            return None
    return f"{decision!r}, which is no decision"


def _above_log_start(what: str, offset: int, log_start: OffsetAndEpoch | None) -> str | None:
    if log_start is None or offset > log_start.offset:
        return f"{what} {offset}, above the leader's log start ({_shown(log_start)})"
    return None


def _shown(offset: OffsetAndEpoch | None) -> str:
    return "which it did not ask for" if offset is None else str(offset.offset)


@dataclass(frozen=True, slots=True)
class GuardedPolicy:
    """A policy that is held to the rules. `otherwise` acts where it breaks one, and `report` gets the sentence."""

    policy: BootstrapPolicy
    name: str
    otherwise: BootstrapPolicy
    report: Callable[[str], None]

    def plan(self, situation: Situation) -> Plan:
        known: dict[int, OffsetAndEpoch] = {}
        plan: Plan | None = None
        answer: Answer | None = None
        while True:
            try:
                plan = self.policy.plan(situation) if plan is None else plan
                question: Question = next(plan) if answer is None else plan.send(answer)
            except StopIteration as end:
                broken = broken_rule(situation, known, end.value)
                if broken is None:
                    decision: Decision = end.value
                    return decision
                return (yield from self._instead(situation, f"decided {broken}"))
            except OUTSIDE:
                raise
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                return (yield from self._instead(situation, f"raised {type(error).__name__}: {error}"))
            if type(question) not in ANSWERS:
                plan.close()
                return (yield from self._instead(situation, f"asked {question!r}, which is no question"))
            answer = yield question
            if isinstance(answer, Offsets):
                known |= {timestamp: offset for timestamp in answer.by_timestamp if (offset := answer.known(timestamp))}

    def _instead(self, situation: Situation, what: str) -> Plan:
        self.report(f"bootstrap policy {self.name!r} {what}; {self.otherwise.name} acts instead")
        return (yield from self.otherwise.plan(situation))
