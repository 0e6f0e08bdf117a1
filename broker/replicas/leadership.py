"""One leader epoch of one led partition: followers' positions, the high watermark they allow, and ISR changes.

What moves the high watermark: an append, a follower's fetch, a change of the ISR, and the timer (a replica that fell
behind no longer counts). The decision is `fetcher.core.leader_replicas`; here it is carried out.

    ISR change: decided -> pending (both outcomes count for the high watermark) -> asked of the cluster view
        accepted                         committed, the high watermark moves
        refused, so it was not made      abandoned
        refused: another change was      stays pending until the image that is on its way says what holds now: it may
          first, or we have resigned     be this change that was first, asked for again when its answer was lost
        outcome unknown                  stays pending and is asked again after a back-off, until it is known
        an image was faster              over: the answer is not for a change that is pending by then
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from ...fetcher.core import (
    DivergingEpoch,
    FetchDecision,
    FetchPosition,
    FollowerFetch,
    LeaderReplicas,
    LeaderView,
    Refuse,
    validate_fetch,
)
from ...light_dataclass import dataclass
from ...log import PartitionLog
from ...log.core import LeaderEpochCache
from ...log.replica import LogOffsets
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition
from ...protocol.net import monotonic_ms
from ..cluster.view import ClusterView, PartitionRegistration
from ..core.read_replicas import ReadReplica, ReplicaSelector
from .resting_fetches import RestingFetches

ALTER_RETRY_MIN_S: Final = 0.05
ALTER_RETRY_MAX_S: Final = 5.0
_NOT_MADE: Final = frozenset({ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted})
_OVERTAKEN: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_request,
        ErrorCode.invalid_update_version,
        ErrorCode.new_leader_elected,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""These and those above are the refusals of the module's table; after any other error the outcome is unknown."""

_log = logging.getLogger(__name__)


class WallClock(Protocol):
    """Time since the epoch in ms, for records."""

    def __call__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionServices:
    """What every partition of a broker shares."""

    node_id: int
    view: ClusterView
    rng: random.Random
    now_ms: WallClock
    lag_time_max_ms: int


class DecidedFetch(NamedTuple):
    """The decision of a Fetch, and the replica and its offsets at that instant."""

    decision: FetchDecision
    view: LeaderView
    offsets: LogOffsets


class LeadershipListener(Protocol):
    """The led partition, which wakes the requests that wait for a leadership."""

    def high_watermark_changed(self) -> None:
        """The high watermark rose, or other replicas count for it."""

    def low_watermark_changed(self) -> None:
        """A follower's log start rose."""


def view_of(
    leader_epoch: int,
    epochs: LeaderEpochCache,
    offsets: LogOffsets,
    epoch_start_offset: int,
    followers: Mapping[int, int],
) -> LeaderView:
    """Return a replica at one instant, as the decisions of a Fetch need it."""
    return LeaderView(
        leader_epoch,
        epochs,
        offsets.log_start_offset,
        offsets.local_log_start_offset,
        offsets.last_stable_offset,
        offsets.high_watermark,
        offsets.log_end_offset,
        epoch_start_offset,
        followers,
    )


class Leadership:
    """One leader epoch: it begins after `PartitionLog.assign_epoch`, and ends with `close`."""

    def __init__(
        self,
        partition: TopicIdPartition,
        log: PartitionLog,
        registration: PartitionRegistration,
        services: PartitionServices,
        listener: LeadershipListener,
    ) -> None:
        self.partition = partition
        self.leader_epoch = registration.leader_epoch
        self._log = log
        self._services = services
        self._listener = listener
        self._altering: dict[asyncio.Task[None], None] = {}
        """The tasks of the pending change, and of changes that an image settled before their answers came."""
        self._followers = self._follower_epochs(registration)
        self.replicas = LeaderReplicas(
            leader_id=registration.leader,
            epoch_start_offset=log.state.log_end_offset,
            replicas=registration.replicas,
            isr=registration.isr,
            partition_epoch=registration.partition_epoch,
            min_insync_replicas=log.state.config.min_insync_replicas,
            lag_time_max_ms=services.lag_time_max_ms,
            now_ms=monotonic_ms(),
        )
        self.resting = RestingFetches(self.replicas)
        """Must be woken before anything is decided from what has moved."""
        self._note_eligible(registration)
        self.advance_high_watermark()

    @property
    def isr(self) -> frozenset[int]:
        """The committed ISR."""
        return self.replicas.isr

    def view_now(self) -> LeaderView:
        """Return the replica at this instant, as the decisions of a Fetch need it."""
        return self.view_at(self._log.state.offsets)

    def view_at(self, offsets: LogOffsets) -> LeaderView:
        """Return the same for a caller that has the offsets already."""
        return view_of(
            self.leader_epoch, self._log.state.epochs, offsets, self.replicas.epoch_start_offset, self._followers
        )

    def decide_fetch(self, position: FetchPosition, fetch: FollowerFetch | None) -> DecidedFetch:
        """Decide a Fetch at this instant, and note a follower's `fetch`, unless it is refused."""
        offsets = self._log.state.offsets
        view = self.view_at(offsets)
        decision = validate_fetch(view, position)
        if fetch is None or isinstance(decision, DivergingEpoch | Refuse):
            return DecidedFetch(decision, view, offsets)
        self.record_fetch(position.replica_id, fetch)
        # The position has raised it: the answer must not be one round trip older than it need be (KIP-1166).
        if self._log.state.high_watermark != view.high_watermark:
            offsets = self._log.state.offsets
            view = self.view_at(offsets)
        return DecidedFetch(decision, view, offsets)

    def advance_high_watermark(self) -> None:
        """Raise the high watermark as far as the replicas allow now. Followers flush before they fetch on; what this
        replica has not flushed as `flush.messages` wants counts for nothing either (it is readable before that).
        """
        self._advance(self._log.state.log_end_offset, monotonic_ms())

    def _advance(self, log_end_offset: int, now_ms: int) -> None:
        log = self._log
        candidate = self.replicas.high_watermark(log_end_offset, now_ms)
        # It never goes back: consumers have read up to it.
        if candidate is None or candidate <= log.state.high_watermark:
            return
        # Our own copy counts only as far as it is flushed: else a power failure here could take what is acknowledged.
        candidate = min(candidate, log.state.settled_end_offset)
        if candidate > log.state.high_watermark and log.update_high_watermark(candidate):
            self._listener.high_watermark_changed()

    def record_fetch(self, replica_id: int, fetch: FollowerFetch) -> None:
        """Note a fetch that `validate_fetch` let pass."""
        replicas, log_end_offset, now_ms = self.replicas, self._log.state.log_end_offset, monotonic_ms()
        log_start_offset = replicas.followers[replica_id].log_start_offset
        if not replicas.record_fetch(replica_id, fetch, log_end_offset, now_ms):
            return
        if fetch.log_start_offset > log_start_offset:
            self._listener.low_watermark_changed()
        self._advance(log_end_offset, now_ms)
        # It acknowledged records that it no longer has: elected, it would take them from every replica.
        shrunk = replicas.isr_without_shorter(replica_id, self._log.state.high_watermark)
        if shrunk is not None:
            _log.error(
                "%s: broker %d is in the ISR and fetches from offset %d, below the high watermark %d: its log has "
                "become shorter, and it leaves the ISR",
                self.partition,
                replica_id,
                fetch.fetch_offset,
                self._log.state.high_watermark,
            )
            self._alter(shrunk)
        # A follower joins only at the high watermark: below it, it lacks committed records.
        grown = replicas.expanded_isr(replica_id, self._log.state.high_watermark, self._log.state.log_start_offset)
        if grown is not None:
            self._alter(grown)

    def preferred_read_replica(self, select: ReplicaSelector, rack: str, offset: int) -> int | None:
        """The follower that a consumer in `rack` had better ask for `offset`; None: this leader."""
        replicas, now_ms = self.replicas, monotonic_ms()
        self.resting.note_positions()
        brokers = {id_: broker for id_, broker in self._services.view.image.brokers.items() if broker.may_join_isr}
        thin = replicas.thin_followers(self._log.state.local_log_start_offset)
        followers = [
            ReadReplica(
                id_, brokers[id_].rack, follower.log_end_offset, now_ms - (follower.last_caught_up_time_ms or 0)
            )
            for id_, follower in replicas.followers.items()
            if id_ in self.isr
            and id_ in brokers
            and id_ not in thin
            and follower.log_start_offset <= offset <= follower.log_end_offset
        ]
        own = brokers.get(replicas.leader_id)
        leader = ReadReplica(replicas.leader_id, None if own is None else own.rack, self._log.state.log_end_offset, 0)
        chosen = select(rack, leader, followers)
        return None if chosen is leader else chosen.broker_id

    def low_watermark(self) -> int:
        """Return the lowest log start of the ISR and of its pending members; -1 while one has not fetched from this
        leader. The next leader names no offset below it.
        """
        return self.replicas.lowest_log_start(self._log.state.log_start_offset, self.replicas.maximal_isr)

    def check_lag(self) -> None:
        """Take replicas that lag out of the ISR. Called by the timer."""
        # Its acknowledgement is missing for `replica.lag.time.max.ms`: without it, the rest can commit again.
        shrunk = self.replicas.shrunk_isr(self._log.state.log_end_offset, monotonic_ms())
        if shrunk is not None:
            _log.info(
                "%s: replicas %s did not catch up within replica.lag.time.max.ms and leave the ISR",
                self.partition,
                sorted(self.isr - shrunk),
            )
            self._alter(shrunk)
        self.advance_high_watermark()

    def on_registration(self, registration: PartitionRegistration) -> None:
        """Take over what the cluster knows of the partition now, under the same leader epoch."""
        assert registration.leader_epoch == self.leader_epoch, (self.partition, registration, self.leader_epoch)
        self.resting.wake()
        self._followers = self._follower_epochs(registration)
        self._note_eligible(registration)
        before = self.isr
        if registration.partition_epoch > self.replicas.partition_epoch:  # else it says nothing of a pending change
            self.replicas.commit_isr(registration.isr, registration.partition_epoch)
        if registration.partition_epoch == self.replicas.partition_epoch:
            self.replicas.assign(registration.replicas, monotonic_ms())
        self._after_isr_change(before)

    def on_config(self) -> None:
        """The log's configuration has changed."""
        self.replicas.min_insync_replicas = self._log.state.config.min_insync_replicas
        self.advance_high_watermark()

    async def close(self) -> None:
        """Stop; an ISR change whose outcome is unknown is left to the next leader epoch."""
        for task in self._altering:
            task.cancel()
        await asyncio.gather(*self._altering, return_exceptions=True)

    def _after_isr_change(self, before: Collection[int]) -> None:
        if self.isr != before:
            self.resting.wake()
            _log.info(
                "%s: ISR %s -> %s at epoch %d", self.partition, sorted(before), sorted(self.isr), self.leader_epoch
            )
            self._listener.high_watermark_changed()
        self.advance_high_watermark()

    def _follower_epochs(self, registration: PartitionRegistration) -> dict[int, int]:
        """Followers and their registered broker epochs, -1 where none is known."""
        brokers = self._services.view.image.brokers
        return {
            replica: brokers[replica].epoch if replica in brokers else -1
            for replica in registration.replicas
            if replica != registration.leader
        }

    def _note_eligible(self, registration: PartitionRegistration) -> None:
        """A replica whose directory is lost or offline has not served since: what it fetched before says nothing of its
        log, and the high watermark does not wait for it to join the ISR again.
        """
        brokers = self._services.view.image.brokers.values()
        self.replicas.set_eligible(
            {
                broker.id: broker.epoch
                for broker in brokers
                if broker.may_join_isr and broker.serves_from(registration.directory_of(broker.id))
            }
        )

    def _alter(self, isr: frozenset[int]) -> None:
        # From here on the members of both ISRs count: the controller may have made the change before we learn of it.
        self.replicas.begin_change(isr)
        epochs = {member: known.broker_epoch for member, known in self.replicas.followers.items() if member in isr}
        task = asyncio.create_task(self._ask(isr, epochs), name=f"alter-partition-{self.partition.topic_partition}")
        self._altering[task] = None
        task.add_done_callback(self._altering.pop)

    async def _ask(self, isr: frozenset[int], stated_epochs: Mapping[int, int]) -> None:
        """Ask each time for the same incarnations: one that came meanwhile may have lost what the change relies on."""
        retry_s = ALTER_RETRY_MIN_S
        while self.replicas.pending_isr is isr:
            try:
                registered = await self._services.view.alter_partition(
                    self.partition,
                    leader_epoch=self.leader_epoch,
                    partition_epoch=self.replicas.partition_epoch,
                    isr=sorted(isr),
                    stated_epochs=stated_epochs,
                )
            except OUTSIDE as failure:
                code = failure.code if isinstance(failure, KafkaError) else None
                if code in _NOT_MADE or code in _OVERTAKEN:
                    _log.info("%s: the controller rejected ISR %s: %s", self.partition, sorted(isr), failure)
                    # Only a change that was certainly not made is abandoned; an overtaken one waits for the image that
                    # settles it.
                    if code in _NOT_MADE and self.replicas.pending_isr is isr:
                        self.replicas.abandon_change()
                        self._listener.high_watermark_changed()
                        self.advance_high_watermark()
                    return
                # It may be in force: while that is unknown, dropping either ISR could commit what a new leader lacks.
                _log.warning(
                    "%s: the outcome of ISR %s is unknown, asking again: %s", self.partition, sorted(isr), failure
                )
                await asyncio.sleep(retry_s * self._services.rng.uniform(0.5, 1.0))
                retry_s = min(2 * retry_s, ALTER_RETRY_MAX_S)
            else:
                # An image may have been faster and have settled this change, or brought another one.
                if self.replicas.pending_isr is isr and registered.leader_epoch == self.leader_epoch:
                    before = self.isr
                    self.replicas.commit_isr(registered.isr, registered.partition_epoch)
                    self._after_isr_change(before)
                return
