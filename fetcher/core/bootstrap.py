"""Where an empty follower begins: the questions, answers and decisions of a bootstrap, and when a policy may act.

A bootstrap is a conversation without I/O. A policy (`policies.py`) is started with a `Situation`, asks the leader and
the remote log metadata `Question`s, is given the answers, and ends with one `Decision`; its caller does the asking
and carries the decision out. Nothing here has a clock: `elapsed_ms` comes in with the situation of each attempt.

    trigger                       the replica                            policy that is asked (`choose_policy`)
    ----------------------------  -------------------------------------  --------------------------------------------
    ASSIGNED                      before its first fetch of this leader  the configured one, if the replica is empty,
    OUT_OF_RANGE                  was refused with error 1               the topic tiered and not compacted, the option
    MOVED_TO_TIERED_STORAGE       was refused with error 109             on and the feature level reached; in any
    TRUNCATED_BELOW_LOCAL_START   must cut below what it has locally     other case `local-log-start` (KIP-405)

Empty is a replica with log end offset 0, one that was never in the ISR since its bootstrap (so that fast local
retention cannot drive it into copying all), and one that must cut below its local log start.

A decision to adopt is carried out only while what it was made for still holds (`obstacle_to_commit`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import field
from enum import Enum
from typing import Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from ...log.core import EpochEnd
from ...remote.core import OffsetAndEpoch, RemoteLogSegmentMetadata


class Trigger(Enum):
    """Why the follower asks where to begin."""

    ASSIGNED = "assigned"
    OUT_OF_RANGE = "out-of-range"
    MOVED_TO_TIERED_STORAGE = "moved-to-tiered-storage"
    TRUNCATED_BELOW_LOCAL_START = "truncated-below-local-start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the follower knows by itself when an attempt begins. Offsets in records, times in ms.

    `is_never_in_isr`: not once in the ISR since its last bootstrap. `is_tier_failing`: the remote log metadata stayed
    behind the leader for longer than the follower wants to wait, or what was to be adopted is damaged or missing.
    `elapsed_ms`: since this bootstrap's first attempt.
    """

    trigger: Trigger
    log_end_offset: int
    is_tiered: bool
    is_compacted: bool = False
    is_never_in_isr: bool = False
    is_option_enabled: bool = True
    is_feature_supported: bool = True
    is_tier_failing: bool = False
    elapsed_ms: int = 0
    now_ms: int = 0

    @property
    def is_empty(self) -> bool:
        return self.log_end_offset == 0 or self.is_never_in_isr or self.trigger is Trigger.TRUNCATED_BELOW_LOCAL_START


@dataclass(frozen=True, slots=True)
class AskOffsets:
    """ListOffsets of the leader, for all these special timestamps at once. Answered by `Offsets`."""

    timestamps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Offsets:
    """None for a timestamp that the leader does not support (error 35); (-1, -1) where it does not know the offset."""

    by_timestamp: Mapping[int, OffsetAndEpoch | None]

    def known(self, timestamp: int) -> OffsetAndEpoch | None:
        """The answer, or None where there is no offset for whatever reason."""
        answer = self.by_timestamp[timestamp]
        return None if answer is None or answer.offset < 0 else answer

    def is_supported(self, timestamp: int) -> bool:
        return self.by_timestamp[timestamp] is not None


@dataclass(frozen=True, slots=True)
class AskEpochEnd:
    """OffsetForLeaderEpoch of the leader. Answered by an `EpochEnd`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class AskRemoteSegments:
    """The finished remote segments with records in [start_offset, end_offset). Answered by `RemoteSegments`."""

    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class RemoteSegments:
    """Overlapping ones included."""

    segments: tuple[RemoteLogSegmentMetadata, ...]


Question = AskOffsets | AskEpochEnd | AskRemoteSegments
Answer = Offsets | EpochEnd | RemoteSegments


@dataclass(frozen=True, slots=True)
class ResumeFetch:
    """Keep the log as it is and fetch at its end."""

    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Cut the log's end at `offset` and fetch there."""

    offset: int
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class StartAt:
    """Drop the whole log and begin at `offset`, the leader's log start; nothing from the tier is needed."""

    offset: int
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AdoptFromTier:
    """Rebuild the state of [log_start_offset, start_offset) from the tier and fetch at `start_offset`.

    `last_epoch` is the leader epoch of the record at `start_offset - 1` in the leader's log. The adopted segment may
    reach further than `start_offset`; then the fetch begins after it.
    """

    log_start_offset: int
    start_offset: int
    last_epoch: int
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        assert 0 <= self.log_start_offset < self.start_offset, f"nothing to adopt: {self}"


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The leader or the metadata cannot say yet: ask again after a back-off."""

    reason: str


Decision = ResumeFetch | TruncateTo | StartAt | AdoptFromTier | RetryLater
Plan = Generator[Question, Answer, Decision]


class BootstrapPolicy(Protocol):
    """How an empty follower of a tiered partition begins. Asked again for each attempt; keeps nothing between them."""

    @property
    def name(self) -> str: ...

    def plan(self, situation: Situation) -> Plan: ...


class Bootstrap:
    """One attempt: `start`, then `on_answer` until the step is a decision."""

    __slots__ = ("_plan", "decision", "policy_name")

    def __init__(self, policy: BootstrapPolicy, situation: Situation) -> None:
        self.policy_name = policy.name
        self.decision: Decision | None = None
        self._plan = policy.plan(situation)

    def start(self) -> Question | Decision:
        return self._advance(None)

    def on_answer(self, answer: Answer) -> Question | Decision:
        assert self.decision is None, f"{self.policy_name} has already decided: {self.decision}"
        return self._advance(answer)

    def _advance(self, answer: Answer | None) -> Question | Decision:
        try:
            return next(self._plan) if answer is None else self._plan.send(answer)
        except StopIteration as end:
            decision: Decision = end.value
            self.decision = decision
            return decision


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """`warning` says why the configured policy cannot act although it should."""

    policy: BootstrapPolicy
    warning: str | None = None


def choose_policy(situation: Situation, configured: BootstrapPolicy, local_log_start: BootstrapPolicy) -> PolicyChoice:
    """The configured policy where it applies, else KIP-405's; see the table of the module docstring."""
    applies = situation.is_empty and situation.is_tiered and not situation.is_compacted
    if not applies or not situation.is_option_enabled:
        return PolicyChoice(local_log_start)
    if not situation.is_feature_supported:
        return PolicyChoice(
            local_log_start, f"the cluster's feature level does not allow {configured.name} yet: {local_log_start.name}"
        )
    if situation.is_tier_failing:
        return PolicyChoice(
            local_log_start,
            f"the tier has not given what {configured.name} needs in {situation.elapsed_ms} ms: {local_log_start.name}",
        )
    return PolicyChoice(configured)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a decision to adopt rests on: taken when the first answer comes, and once more before the commit."""

    topic_id: UUID
    leader_epoch: int


def obstacle_to_commit(asked: Standing, now: Standing, leader_log_start_offset: int, start_offset: int) -> str | None:
    """Why state adopted for `start_offset` must not be committed; None if it may. The remedy is to ask again."""
    if now.topic_id != asked.topic_id:
        return f"the topic was recreated: id {now.topic_id}, the bootstrap was for {asked.topic_id}"
    if now.leader_epoch != asked.leader_epoch:
        return f"leader epoch {now.leader_epoch} has begun, the answers came from epoch {asked.leader_epoch}"
    if leader_log_start_offset >= start_offset:
        return f"the log start {leader_log_start_offset} has reached the start offset {start_offset}: nothing to adopt"
    return None
