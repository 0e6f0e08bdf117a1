"""Runs a bootstrap conversation: asks the leader and the tier, prepares what is to be committed, checks its ground.

    situation -> policy -> questions, asked at once where they come together -> decision
    decision to adopt -> aux state from the tier -> the leader's log start once more -> ReadyToAdopt
    ReadyToAdopt -> `commit`: checked and handed to the partition without an await between

Nothing local changes before `commit`, so an attempt may be cancelled or fail at any point and be made again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..light_dataclass import dataclass
from ..protocol import ErrorCode, KafkaError, TopicIdPartition
from ..remote import RemoteStorageError
from ..remote.core import OffsetAndEpoch
from .all_done import all_done
from .aux_state import AskAgainError, AuxState, AuxStateBuilder
from .core.bootstrap import (
    AdoptFromTier,
    Answer,
    AskEpochEnd,
    AskOffsets,
    AskRemoteSegments,
    Bootstrap,
    BootstrapPolicy,
    Decision,
    Offsets,
    Question,
    RemoteSegments,
    Situation,
    Standing,
    Trigger,
    choose_policy,
    obstacle_to_commit,
)
from .core.leader_offsets import EARLIEST_TIMESTAMP
from .core.policies import LocalLogStart
from .ports import FollowerPartition, LeaderEndpoint

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapSettings:
    """What may change while the broker runs. The option is `follower.fetch.last.tiered.offset.enable`."""

    policy: BootstrapPolicy
    is_option_enabled: bool
    is_feature_supported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a fetcher remembers between the attempts of one bootstrap; the fields are those of `Situation`."""

    trigger: Trigger
    elapsed_ms: int
    is_tier_failing: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReadyToAdopt:
    """Verified state, and what it rests on; `tier_s`: how long it took to come from the tier."""

    aux: AuxState
    asked: Standing
    leader_log_start_offset: int
    tier_s: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """How an attempt ended, and the policy that decided it."""

    outcome: Decision | ReadyToAdopt
    policy_name: str


class Bootstrapper:
    """One for all partitions of a broker. `aux_states` is None where the broker has no tier."""

    def __init__(self, settings: Callable[[], BootstrapSettings], aux_states: AuxStateBuilder | None) -> None:
        self._settings = settings
        self._aux_states = aux_states
        self._local_log_start = LocalLogStart()

    async def prepare(
        self, replica: FollowerPartition, leader: LeaderEndpoint, leader_epoch: int, attempt: Attempt
    ) -> Prepared:
        """One attempt, without any local effect.

        LedgerBehindError, AskAgainError, RemoteStorageError and RemoteLogMetadataError from the tier, KafkaError and
        OSError from the leader: all of them are worth another attempt. So is FENCED_LEADER_EPOCH: these questions name
        the topic and not its id, and the leader may think of the topic that had the name before, and a later epoch.
        """
        partition = replica.topic_id_partition
        asked = Standing(partition.topic_id, leader_epoch)
        settings = self._settings()
        situation = _situation(replica, settings, attempt, has_tier=self._aux_states is not None)
        choice = choose_policy(situation, settings.policy, self._local_log_start)
        if choice.warning is not None:
            _log.warning("%s: %s", partition, choice.warning)
        decision = await self._converse(Bootstrap(choice.policy, situation), partition, leader, leader_epoch)
        if not isinstance(decision, AdoptFromTier):
            return Prepared(decision, choice.policy.name)
        if self._aux_states is None:
            raise RemoteStorageError(
                f"{partition}: the leader has only tiered records below offset {decision.start_offset}, but this broker"
                " has none: set remote.log.storage.system.enable and its plugin"
            )
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        aux = await self._aux_states.build(partition, decision, leader, leader_epoch)
        tier_s = now_s() - began_s
        log_start = await leader.list_offset(partition, leader_epoch, EARLIEST_TIMESTAMP)
        return Prepared(ReadyToAdopt(aux, asked, log_start.offset, tier_s), choice.policy.name)

    async def commit(self, replica: FollowerPartition, ready: ReadyToAdopt) -> None:
        """Adopt, or AskAgainError if the ground has moved meanwhile (bootstrap rule 3)."""
        now = Standing(replica.topic_id_partition.topic_id, replica.leader_epoch)
        state = ready.aux.state
        obstacle = obstacle_to_commit(ready.asked, now, ready.leader_log_start_offset, state.start_offset)
        if obstacle is not None:
            raise AskAgainError(f"{replica.topic_id_partition}: {obstacle}")
        await replica.adopt(state)

    async def _converse(
        self, bootstrap: Bootstrap, partition: TopicIdPartition, leader: LeaderEndpoint, leader_epoch: int
    ) -> Decision:
        step = bootstrap.start()
        while isinstance(step, AskOffsets | AskEpochEnd | AskRemoteSegments):
            step = bootstrap.on_answer(await self._ask(step, partition, leader, leader_epoch))
        return step

    async def _ask(
        self, question: Question, partition: TopicIdPartition, leader: LeaderEndpoint, leader_epoch: int
    ) -> Answer:
        match question:
            case AskOffsets(timestamps):
                return await _ask_offsets(timestamps, partition, leader, leader_epoch)
            case AskEpochEnd(epoch):
                return await leader.end_offset_for_leader_epoch(partition, leader_epoch, epoch)
            case AskRemoteSegments(start_offset, end_offset):
                assert self._aux_states is not None, "a policy asked for the tier of a broker that has none"
                return RemoteSegments(await self._aux_states.finished_segments(partition, start_offset, end_offset))


def _situation(
    replica: FollowerPartition, settings: BootstrapSettings, attempt: Attempt, *, has_tier: bool
) -> Situation:
    return Situation(
        trigger=attempt.trigger,
        log_end_offset=replica.offsets.log_end_offset,
        is_tiered=replica.is_tiered and has_tier,
        is_compacted=replica.is_compacted,
        is_never_in_isr=replica.is_never_in_isr,
        is_option_enabled=settings.is_option_enabled,
        is_feature_supported=settings.is_feature_supported,
        is_tier_failing=attempt.is_tier_failing,
        elapsed_ms=attempt.elapsed_ms,
        now_ms=attempt.now_ms,
    )


async def _ask_offsets(
    timestamps: tuple[int, ...], partition: TopicIdPartition, leader: LeaderEndpoint, leader_epoch: int
) -> Offsets:
    """All at the same time; the leader's log may move between the answers, which `commit` checks."""

    async def ask(timestamp: int) -> OffsetAndEpoch | None:
        try:
            return await leader.list_offset(partition, leader_epoch, timestamp)
        except KafkaError as error:
            if error.code is not ErrorCode.unsupported_version:
                raise
            return None

    asked = {timestamp: asyncio.create_task(ask(timestamp)) for timestamp in timestamps}
    await all_done(*asked.values())
    return Offsets({timestamp: task.result() for timestamp, task in asked.items()})
