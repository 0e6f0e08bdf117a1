"""Fetches any number of partitions from one leader: the shell around the follower's decisions.

    add(partition) --> bootstrap task --> fetched with all others, one fetch in flight --> append, fetch again
                        (bootstraps_max at a time, beside the fetching of the others)

Rules:

* What to do with an answer is `fetch_outcome`, where to begin is `bootstrap`; this module carries it out.
* An answer is used only while its replica is current: not removed, and the metadata still at its leader epoch.
* Local effects of a replica are made one at a time under its `effects` lock and are never cancelled half-way by
  `remove`, which waits for the one under way. Everything else of a removed replica is cancelled at once.
* The fetch at an offset leaves only after everything below it was taken by the disk: the leader counts on that.
* An answer is acted upon as soon as it is there, while those of others arrive; the next fetch waits for all of them.
  The last effect of a round is made by the task that fetches; if it is late, the fetches continue in another task.
* A failure touches its own replica: it backs off and tries again (delay doubling up to a maximum, with jitter), or, if
  the fault is ours, fails until it is added again. Only a failed fetch as such delays all of them. A replica whose disk
  stalls is left out of the fetches until the disk has answered.
* What is fetched, and what of it has to be looked at, is `wanted_partitions`.
* A fetch waits long only if no bootstrap is under way. A replica that becomes ready during a long wait ends it, but not
  what will be answered at once, because a replica lacks records, nor an answer that has begun to arrive: its records
  would be sent twice.
* A replica that has not caught up is left out of the fetches while its throttle holds it back (replication_quota).

Knows no wire format and no file: `LeaderEndpoint` and `FollowerPartition` are ports.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from random import Random

from ..light_dataclass import dataclass
from ..limited_log import LimitedLog
from ..protocol import OUTSIDE, TopicIdPartition, describe_error
from ..remote import RemoteLogMetadataError, RemoteResourceNotFoundError, RemoteStorageCorruptError, RemoteStorageError
from .aux_state import LedgerBehindError
from .bootstrap_runner import Attempt, Bootstrapper, Prepared, ReadyToAdopt
from .core.bootstrap import Decision, ResumeFetch, RetryLater, StartAt, Trigger, TruncateTo
from .core.fetch_outcome import BackOff, Begin, Cut, Stop, outcome_of
from .core.fetched_records import base_offset_of, whole_batches
from .core.partition_fetch import FetchedPartition, FetchLimits
from .core.replication_quota import FollowerThrottle, NoThrottle
from .followed_replica import FollowedReplica, ReplicaProgress, ReplicaState, back_off_delay_s
from .ports import Arrived, FollowerPartition, LeaderEndpoint
from .wanted_partitions import WantedPartitions

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)

TIER_FAILURES_MAX = 2
"""How often the tier may fail to give what is to be adopted (its metadata stay behind, an object is damaged or missing)
before `local-log-start` is tried; after as many failures of that the configured policy again, and so on.
"""
TIER_FAILURES = (LedgerBehindError, RemoteStorageCorruptError, RemoteResourceNotFoundError)

Answers = Mapping[TopicIdPartition, FetchedPartition]


@dataclass(slots=True, eq=False)
class LongFetch:
    """What `task` waits for, until an answer begins to arrive; not to be ended by `task` itself. It does what
    `asyncio.timeout(None)` and its `reschedule` do, at a quarter of the cost.

    Where CancelledError comes out of the wait, `is_only_ended` tells whether it has no other origin. However the wait
    came to its end, the task is to `uncancel` itself if it was ended.
    """

    task: asyncio.Task[None]
    is_ended: bool = False
    is_answered: bool = False
    """An answer that arrives is not given up: the wait is over, and the session that it begins would be lost, with the
    records that are there already.
    """

    def end(self) -> None:
        if not self.is_ended and not self.is_answered:
            self.is_ended = True
            self.task.cancel()

    def begin_to_be_answered(self) -> None:
        self.is_answered = True

    @property
    def is_only_ended(self) -> bool:
        return self.is_ended and self.task.cancelling() == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherConfig:
    """Kafka's `replica.fetch.*` first. `busy_wait_max_ms` takes the place of `wait_max_ms` while bootstraps run;
    `effect_wait_max_ms` is how long all replicas wait for the slowest disk.
    """

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 50
    backoff_max_ms: int = 1000
    busy_wait_max_ms: int = 20
    effect_wait_max_ms: int = 100
    bootstraps_max: int = 32


class ReplicaFetcher:
    """One for each leader (or several, over disjoint partitions). `run` is its life."""

    def __init__(
        self,
        leader: LeaderEndpoint,
        bootstrapper: Bootstrapper,
        config: FetcherConfig,
        random: Random,
        *,
        throttle: FollowerThrottle | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._limits = FetchLimits(config.wait_max_ms, config.min_bytes, config.response_max_bytes)
        self._effect_wait_max_s = config.effect_wait_max_ms / 1000
        self._throttle = throttle or NoThrottle()
        self._leader = leader
        self._bootstrapper = bootstrapper
        self._random = random
        self._wall_clock = wall_clock
        self._replicas: dict[TopicIdPartition, FollowedReplica] = {}
        self._wanted = WantedPartitions(self._replicas, self._throttle, config.max_bytes)
        self._bootstraps = asyncio.Semaphore(config.bootstraps_max)
        self._group: asyncio.TaskGroup | None = None
        self._ready = asyncio.Event()
        self._fetching: asyncio.Task[None] | None = None
        """The task whose turn it is to fetch."""
        self._long_fetch: LongFetch | None = None
        self._fetch_failures = 0

    @property
    def replicas(self) -> Mapping[TopicIdPartition, FollowedReplica]:
        """To look at: states, reasons, progress."""
        return self._replicas

    def add(self, partition: FollowerPartition) -> None:
        """Follow this replica's leader under its present leader epoch; takes effect at once."""
        key = partition.topic_id_partition
        assert key not in self._replicas, f"{key} is fetched already: remove it first"
        replica = FollowedReplica(partition, partition.leader_epoch, ReplicaProgress(self._wall_clock()))
        self._replicas[key] = replica
        self._begin(replica, Trigger.ASSIGNED)

    async def remove(self, key: TopicIdPartition) -> ReplicaProgress | None:
        """Stop following. When this returns, no effect on the local log is under way or will come."""
        replica = self._replicas.pop(key, None)
        if replica is None:
            return None
        self._wanted.touch(key)
        replica.remove()
        if replica.task is not None:
            if not replica.effects.locked():
                replica.task.cancel()
            await asyncio.wait({replica.task})
        async with replica.effects:
            return replica.progress

    def retry_now(self) -> None:
        """Something that replicas may be waiting for has changed (a feature level, say): end every back-off."""
        for replica in self._replicas.values():
            if replica.state is ReplicaState.BACKOFF:
                self._end_back_off(replica)

    async def run(self) -> None:
        """Fetch until cancelled. To let local effects end in an orderly way, remove the replicas first."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    for replica in self._replicas.values():
                        self._start_bootstrap(replica)
                    self._begin_to_fetch()
                    await asyncio.get_running_loop().create_future()
                finally:
                    self._group = None  # what ends while the others are cancelled begins nothing new
        finally:
            await self._leader.close()

    # --- bootstraps -------------------------------------------------------------------------------------------------

    def _begin(self, replica: FollowedReplica, trigger: Trigger) -> None:
        replica.begin(trigger, asyncio.get_running_loop().time())
        self._wanted.touch(replica.partition.topic_id_partition)
        self._start_bootstrap(replica)

    def _start_bootstrap(self, replica: FollowedReplica) -> None:
        if self._group is not None and replica.task is None and replica.state is ReplicaState.BOOTSTRAPPING:
            replica.task = self._group.create_task(self._bootstrap(replica))
            replica.task.add_done_callback(lambda task: self._bootstrap_ended(replica, task))

    def _bootstrap_ended(self, replica: FollowedReplica, task: asyncio.Task[None]) -> None:
        replica.forget_task()
        if not task.cancelled() and replica.is_current:
            self._start_bootstrap(replica)  # its back-off was ended just before

    async def _bootstrap(self, replica: FollowedReplica) -> None:
        async with self._bootstraps:
            while replica.state is ReplicaState.BOOTSTRAPPING and replica.is_current:
                await self._supervised(replica, ReplicaState.BOOTSTRAPPING, self._attempt_bootstrap)

    async def _attempt_bootstrap(self, replica: FollowedReplica) -> None:
        if replica.progress.first_fetch_at is None:
            replica.progress.first_fetch_at = self._wall_clock()
        elapsed_s = asyncio.get_running_loop().time() - replica.bootstrap_began_at
        attempt = Attempt(
            trigger=replica.trigger,
            elapsed_ms=int(elapsed_s * 1000),
            is_tier_failing=replica.tier_failures // TIER_FAILURES_MAX % 2 == 1,
            now_ms=int(self._wall_clock() * 1000),
        )
        prepared = await self._bootstrapper.prepare(replica.partition, self._leader, replica.leader_epoch, attempt)
        if isinstance(prepared.outcome, RetryLater):
            self._back_off(replica, prepared.outcome.reason, ReplicaState.BOOTSTRAPPING)
            return
        async with replica.effects:
            if replica.is_current:
                await self._carry_out(replica, prepared)

    async def _carry_out(self, replica: FollowedReplica, prepared: Prepared) -> None:
        partition, outcome, trigger = replica.partition, prepared.outcome, replica.trigger
        match outcome:
            case ResumeFetch(reason) if trigger is not Trigger.ASSIGNED:
                # Nothing has changed since the leader refused: at once it would refuse again.
                self._back_off(replica, f"{trigger.value}, but {reason}", ReplicaState.FETCHING)
                return
            case TruncateTo(offset) if offset < partition.offsets.local_log_start_offset:
                replica.begin(Trigger.TRUNCATED_BELOW_LOCAL_START, replica.bootstrap_began_at)  # in the same state
                return
            case TruncateTo(offset):
                await partition.truncate_to(offset)
            case StartAt(offset):
                await partition.start_at(offset)
            case ReadyToAdopt():
                await self._bootstrapper.commit(partition, outcome)
                replica.progress.bytes_from_tier += outcome.aux.bytes_from_tier
                replica.progress.tier_s += outcome.tier_s
        replica.end_bootstrap(self._wall_clock())
        self._wanted.touch(partition.topic_id_partition)
        key, offset = partition.topic_id_partition, partition.offsets.log_end_offset
        _log.info(
            "%s: replication starts at offset %d by bootstrap policy %s (%s): %s",
            *(key, offset, prepared.policy_name, trigger.value, _summary(outcome)),
        )
        self._became_ready()

    # --- fetches ----------------------------------------------------------------------------------------------------

    def _begin_to_fetch(self) -> None:
        """Fetch in a new task, which takes the turn of the previous one."""
        if self._group is not None and not (self._fetching is not None and self._fetching.cancelling()):
            self._fetching = self._group.create_task(self._fetch_while_it_may())

    async def _fetch_while_it_may(self) -> None:
        own, now_s = asyncio.current_task(), asyncio.get_running_loop().time
        while self._fetching is own:
            touched = self._wanted.look(now_s())
            if self._wanted.requests:
                await self._fetch_round(touched)
            else:
                await self._wait_ready()
        self._became_ready()  # the replica whose effect was late

    async def _wait_ready(self) -> None:
        """Wait until there may be a replica to fetch."""
        self._ready.clear()
        try:
            async with asyncio.timeout(self._wanted.held_back_s):
                await self._ready.wait()
        except TimeoutError:
            pass

    async def _fetch_round(self, touched: Collection[TopicIdPartition]) -> None:
        """Fetch what is wanted, and act upon every answer."""
        effects: list[asyncio.Task[None]] = []
        acted_upon: set[TopicIdPartition] = set()

        def act(key: TopicIdPartition, answer: FetchedPartition) -> None:
            if self._long_fetch is not None:
                self._long_fetch.begin_to_be_answered()
            acted_upon.add(key)
            replica = self._answered(key, answer)
            if replica is not None:
                effects.append(self._begin_effect(replica, answer))

        try:
            answers = await self._fetch(touched, act)
        except Exception as error:  # noqa: BLE001 - the supervisor of the fetch that all replicas share
            await self._wait_for(effects)
            await self._delay_after(error)
            return
        self._fetch_failures = 0
        self._wanted.answered()
        rest: list[tuple[FollowedReplica, FetchedPartition]] = []
        for key, answer in answers.items():
            replica = self._answered(key, answer) if key not in acted_upon else None
            if replica is not None:
                rest.append((replica, answer))
        if rest:
            last = rest.pop()
            for each in rest:
                effects.append(self._begin_effect(*each))
            await self._make_effect(*last, effects)
        if effects:
            await self._wait_for(effects)

    def _answered(self, key: TopicIdPartition, answer: FetchedPartition) -> FollowedReplica | None:
        """The replica that has to be acted upon, unless it was followed by this."""
        replica = self._wanted.fetched(key)
        self._wanted.touch(key)
        if self._group is None or replica is None or replica.state is not ReplicaState.FETCHING:
            return None
        return None if self._followed_quietly(replica, answer) else replica

    def _begin_effect(self, replica: FollowedReplica, answer: FetchedPartition) -> asyncio.Task[None]:
        assert self._group is not None
        return self._group.create_task(self._supervised(replica, ReplicaState.FETCHING, self._use, answer))

    async def _make_effect(
        self, replica: FollowedReplica, answer: FetchedPartition, others: Iterable[asyncio.Task[None]]
    ) -> None:
        """Run it without a task of its own. If it takes too long the fetches continue in another task, without it and
        those whose effects, the `others` of the round, have not ended by then.
        """

        def go_on() -> None:
            self._fetch_again_after(others)
            self._begin_to_fetch()

        late = asyncio.get_running_loop().call_later(self._effect_wait_max_s, go_on)
        try:
            await self._supervised(replica, ReplicaState.FETCHING, self._use, answer)
        finally:
            late.cancel()

    async def _wait_for(self, effects: list[asyncio.Task[None]]) -> None:
        """Wait for the effects of a round, unless another task fetches by now."""
        if effects and self._fetching is asyncio.current_task():
            _, late = await asyncio.wait(effects, timeout=self._effect_wait_max_s)
            self._fetch_again_after(late)

    def _fetch_again_after(self, effects: Iterable[asyncio.Task[None]]) -> None:
        """Fetch again when these effects end; until then their replicas are left out."""
        for effect in effects:
            effect.add_done_callback(lambda _: self._became_ready())

    async def _delay_after(self, error: Exception) -> None:
        self._fetch_failures += 1
        delay_s = self._delay_s(self._fetch_failures)
        fault = None if isinstance(error, OUTSIDE) else error
        text = f"fetching from broker {self._leader.broker_id} failed, retrying in {delay_s:.2f} s: {error!r}"
        _log.warning(text, exc_info=fault)
        await asyncio.sleep(delay_s)

    async def _fetch(self, touched: Collection[TopicIdPartition], arrived: Arrived) -> Answers:
        """Nothing if the wait was ended because another replica became ready."""
        wanted, own = self._wanted, self._fetching
        assert own is not None, "a fetch without a task whose turn it is"
        if wanted.is_in_motion or wanted.is_behind:
            return await self._leader.fetch(wanted.requests, touched, self._limits_now(), arrived)
        self._long_fetch = fetch = LongFetch(own)
        try:
            return await self._leader.fetch(
                wanted.requests, touched, self._limits_now(), arrived, fetch.begin_to_be_answered
            )
        except asyncio.CancelledError:
            if not fetch.is_only_ended:
                raise
            return {}
        finally:
            self._long_fetch = None
            if fetch.is_ended:
                own.uncancel()

    def _limits_now(self) -> FetchLimits:
        """A fetch waits less long where something else is to be done soon."""
        config, wanted = self.config, self._wanted
        if not wanted.is_in_motion and wanted.held_back_s is None:
            return self._limits
        wait_ms = config.wait_max_ms
        if wanted.is_in_motion:
            wait_ms = min(wait_ms, config.busy_wait_max_ms)
        if wanted.held_back_s is not None:
            wait_ms = min(wait_ms, math.ceil(wanted.held_back_s * 1000))
        return FetchLimits(wait_ms, config.min_bytes, config.response_max_bytes)

    def _followed_quietly(self, replica: FollowedReplica, answer: FetchedPartition) -> bool:
        """The usual answer without records needs no lock and no task."""
        if len(answer.records) or not answer.agrees or not replica.is_current:
            return False
        offsets = replica.partition.offsets
        if answer.log_start_offset > offsets.log_start_offset:
            return False
        self._follow_high_watermark(replica, answer.high_watermark, offsets.log_end_offset)
        return True

    async def _use(self, replica: FollowedReplica, answer: FetchedPartition) -> None:
        await replica.effects.acquire()
        try:
            if not replica.is_current:
                return
            if answer.agrees:
                await self._append(replica, answer)
            else:
                await self._act_upon_disagreement(replica, answer)
        finally:
            replica.effects.release()

    async def _act_upon_disagreement(self, replica: FollowedReplica, answer: FetchedPartition) -> None:
        partition = replica.partition
        offsets = partition.offsets
        match outcome_of(answer, partition.epochs, offsets.local_log_start_offset, offsets.log_end_offset):
            case Cut(offset):
                await self._cut(replica, offset)
            case Begin(trigger):
                self._begin(replica, trigger)
            case BackOff(reason):
                self._back_off(replica, reason, ReplicaState.FETCHING)
            case Stop(reason):
                replica.fail(reason)

    async def _append(self, replica: FollowedReplica, answer: FetchedPartition) -> None:
        """Then follow the leader's log start (-1: not given) and high watermark, in this order: below its log start the
        leader vouches for no record, so the high watermark must not pass one that is still to be read here.
        """
        partition = replica.partition
        if size_bytes := len(answer.records):
            if not partition.has_room:
                return  # other answers have taken it since this fetch left; `wanted_partitions` fetches it again
            batches = whole_batches(answer.records)
            if not len(batches):
                self._back_off(replica, f"no whole batch in {size_bytes} bytes", ReplicaState.FETCHING)
                return
            base_offset, offsets = base_offset_of(batches), partition.offsets
            if 0 <= base_offset < offsets.log_end_offset == offsets.log_start_offset:
                # A log that starts in the middle of a batch has that batch whole; an empty one begins where it begins.
                await partition.start_at(base_offset)
            now_s = asyncio.get_running_loop().time
            began_s = now_s()
            await partition.append(batches)
            replica.progress.append_s += now_s() - began_s
            replica.progress.bytes_from_leader += size_bytes
            self._throttle.fetched(partition.topic_id_partition, size_bytes)
            replica.tier_failures = 0
        offsets = partition.offsets
        if answer.log_start_offset > offsets.log_start_offset:
            await partition.follow_log_start_offset(min(answer.log_start_offset, offsets.log_end_offset))
            offsets = partition.offsets
        self._follow_high_watermark(replica, answer.high_watermark, offsets.log_end_offset)

    @staticmethod
    def _follow_high_watermark(replica: FollowedReplica, high_watermark: int, log_end_offset: int) -> None:
        replica.failures = 0
        # The leader's may be ahead of this log: what is not here yet may still be cut, and must not count as committed.
        replica.is_caught_up = high_watermark <= log_end_offset
        replica.partition.update_high_watermark(high_watermark if replica.is_caught_up else log_end_offset)

    async def _cut(self, replica: FollowedReplica, offset: int) -> None:
        partition = replica.partition
        replica.state = ReplicaState.TRUNCATING
        key = partition.topic_id_partition
        _of_peers.info(str(key), "%s: truncated from %d to %d", key, partition.offsets.log_end_offset, offset)
        await partition.truncate_to(offset)
        replica.begin_to_ask()
        replica.state = ReplicaState.FETCHING

    # --- failures ---------------------------------------------------------------------------------------------------

    async def _supervised(
        self, replica: FollowedReplica, resume: ReplicaState, work: Callable[..., Awaitable[None]], *args: object
    ) -> None:
        """Back off after a retriable error; an internal error stops this replica and no other."""
        try:
            await work(replica, *args)
        except OUTSIDE as error:
            replica.tier_failures += isinstance(error, TIER_FAILURES)
            if _is_of_tier(error):
                self._report_tier_outage(replica, describe_error(error))
            self._back_off(replica, describe_error(error), resume)
        except Exception as error:  # noqa: BLE001 - the supervisor of this replica's work
            replica.fail(f"{type(error).__name__}: {error}")
            key = replica.partition.topic_id_partition
            self._wanted.touch(key)
            _log.exception("internal error in the replication of %s; it stops until the broker is restarted", key)

    def _report_tier_outage(self, replica: FollowedReplica, reason: str) -> None:
        """Warn once for each bootstrap: the attempts that follow may last for hours, and are logged at INFO."""
        if replica.is_tier_outage_reported:
            return
        replica.is_tier_outage_reported = True
        _log.warning(
            "%s: the bootstrap waits for the tier, and the replica stays out of the ISR until then: %s; check that this"
            " broker reaches the remote store and the remote log metadata topic",
            replica.partition.topic_id_partition,
            reason,
        )

    def _back_off(self, replica: FollowedReplica, reason: str, resume: ReplicaState) -> None:
        loop = asyncio.get_running_loop()
        delay_s = self._delay_s(replica.failures)
        level = logging.DEBUG if reason == replica.reason else logging.INFO
        key = replica.partition.topic_id_partition
        _log.log(level, "%s: %s, retrying in %.2f s: %s", key, resume.value, delay_s, reason)
        replica.back_off(reason, resume, loop.call_later(delay_s, self._end_back_off, replica))
        self._wanted.touch(key)

    def _end_back_off(self, replica: FollowedReplica) -> None:
        if replica.is_removed:
            return
        replica.end_back_off()
        self._wanted.touch(replica.partition.topic_id_partition)
        if replica.state is ReplicaState.BOOTSTRAPPING:
            self._start_bootstrap(replica)
        else:
            self._became_ready()

    def _delay_s(self, failures: int) -> float:
        return back_off_delay_s(
            failures, self.config.backoff_ms / 1000, self.config.backoff_max_ms / 1000, self._random
        )

    def _became_ready(self) -> None:
        self._ready.set()
        if self._long_fetch is not None:
            self._long_fetch.end()


def _is_of_tier(error: Exception) -> bool:
    """Return whether the tier or its metadata failed, and not the leader or the local disk."""
    return isinstance(error, RemoteStorageError | RemoteLogMetadataError | LedgerBehindError)


def _summary(outcome: Decision | ReadyToAdopt) -> str:
    """Describe a bootstrap's outcome in one line for the log: an adopted producer snapshot may be of many megabytes."""
    if isinstance(outcome, ReadyToAdopt):
        return f"the log up to there was adopted from the tier, {outcome.aux.bytes_from_tier} bytes"
    return outcome.reason
