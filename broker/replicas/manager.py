"""Makes what this broker hosts follow the cluster image: logs, roles, fetchers, the remote log manager.

One change at a time a partition, in this order, so that nothing acts on a log that another owner has by then:

    the image says            done
    ------------------------  ---------------------------------------------------------------------------------------
    hosted, no log            make the log; what another incarnation has left here is put aside, and what the tier holds
                              of that deleted
    hosted, the log failed    report the replica as LOST at once; serve again when it can append again (`failed_logs`)
    hosted, the disk failed   the same
      when it was to be opened
    hosted, its files are     put them aside and begin again, or leave them to the operator (`damaged_logs`)
      damaged
    led here, a new epoch     stop its fetcher, note the epoch, lead; the tier's task starts
    led elsewhere             stop leading, stop the fetcher of the old epoch, follow the new leader
    led by nobody             stop leading, stop the fetcher
    led elsewhere, and this   the same: no other replica waits for what it would copy, and the new leaders of thousands
      broker is leaving and   of partitions have their clients to serve, not its fetches
      out of the ISR
    the same epoch            the ISR and the replicas are noted
    other configs             the log, the leadership and the tier's task are notified
    not hosted, or another    stop everything; if the topic was deleted, delete what the tier holds of it (durably
      incarnation             noted): at once if this broker led it, else later, if it is there still; delete the log
    a log of a partition that as above; if the topic was deleted, whichever broker led
      was not hosted since the
      start, or of a deleted
      one that has failed

To lead waits for no disk: the epoch's entry becomes durable later (`log/replica/state.py`). After a crash the batches
say where it begins, and this broker leads again in a later epoch only.

Remote log metadata are read while the logs are made: of all partitions that an image brings in one pass.

Images that come while one is applied are applied as one, the last; of each, what differs from the one applied before
(`image_changes`). A partition that fails is reported, answers KAFKA_STORAGE_ERROR and is tried again at the next image
or tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Final

from ...light_dataclass import dataclass
from ...log.keeper import LogManager, damage_of
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition, TopicPartition, describe_error
from ...protocol.net import Slices, exhausted, for_each
from ...rlm import RemoteLogManager, TierMode, TierPolicy
from ..cluster.topic_config import TopicConfigs
from ..cluster.view import NO_LEADER, ClusterImage, PartitionRegistration
from ..core.image_changes import STEP_PARTITIONS, Changes, changed_steps
from .damaged_logs import DamagedLogs
from .directory_moves import DirectoryMoves
from .failed_logs import NO_EPOCH, FailedLogs
from .fetcher_pool import FetcherPool
from .followed_partition import FollowedPartition
from .hosted_partitions import HostedPartitions
from .leadership import PartitionServices
from .partition import Partition, RoleListener
from .thin_replicas import ThinReplicas

CHANGES_MAX: Final = 32
"""Partitions that are changed at the same time. A change that makes or removes a log waits for the disk a few times,
mostly for syncs, which the file system commits together; a change of leadership waits for none. `CHANGE_WEIGHT` bounds
what is begun in one iteration of the loop, but not what goes on there: with 256 at the same time, those that the disk
has answered hold the loop for a second.
"""
CHANGE_WEIGHT: Final = 100
"""What the change of one partition costs on the loop, in elements of `pace`: some 0.5 ms."""
TICK_S_MAX: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Role:
    """The role that a partition was last given."""

    leader: int
    leader_epoch: int


class _StaleTopicError(KafkaError):
    """The tier still holds an earlier topic of a log's name, and its deletion could not be noted."""


class ReplicaManager:
    """`tier` is None on a broker without a remote storage system."""

    def __init__(
        self,
        hosted: HostedPartitions,
        services: PartitionServices,
        configs: TopicConfigs,
        logs: LogManager,
        fetchers: FetcherPool,
        tier: RemoteLogManager | None,
        roles: RoleListener,
        thin: ThinReplicas,
        moves: DirectoryMoves,
    ) -> None:
        self._hosted = hosted
        self._services = services
        self._configs = configs
        self._logs = logs
        self._fetchers = fetchers
        self._tier = tier
        self._role_listener = roles
        self._roles: dict[TopicPartition, _Role] = {}
        self._changed = asyncio.Event()
        self._failed = FailedLogs(logs, services.node_id, services.rng, self._changed.set, hosted.log_failures)
        self._directories = moves.directories
        self._moves = moves
        self._damaged = DamagedLogs(logs, services.node_id)
        self._without_log_start: set[TopicIdPartition] = set()
        """To be led, as soon as their log start is known."""
        self._thin = thin
        self._applied: ClusterImage | None = None
        self._again: dict[TopicIdPartition, None] = {}
        """To be looked at once more, whatever the next image says of them."""
        self._strays: set[TopicPartition] = set()
        """Logs of partitions that are not assigned, and could not be deleted yet."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once the present image is applied."""
        self._services.view.subscribe(lambda old, new: self._changed.set())
        await self._apply(self._hosted.image)
        self._moves.resume()
        self._tasks = [
            asyncio.create_task(self._follow_images(), name="replica-manager"),
            asyncio.create_task(self._tick(), name="isr-timer"),
        ]

    async def close(self) -> None:
        """Stop following, leading and tiering; the logs are left to their manager."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._moves.close()
        self._failed.close()
        await _change([partition.partition for partition in self._hosted.partitions.values()], self._let_go)

    # -- images -------------------------------------------------------------------------------------------------------

    async def _follow_images(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._apply(self._hosted.image)

    async def _tick(self) -> None:
        """Look for laggards; try again what has failed."""
        while True:
            await asyncio.sleep(min(self._services.lag_time_max_ms / 2000, TICK_S_MAX))
            async for some in Slices(list(self._hosted.partitions.values())):
                for partition in some:
                    if partition.leadership is not None:
                        partition.leadership.check_lag()
                    if partition.has_failed:
                        self._again[partition.partition] = None
            self._work_if_wanted()
            await self._thin.settle()

    def try_again(self) -> None:
        """Try again what has failed, now."""
        hosted = self._hosted.partitions.values()
        self._again |= {partition.partition: None for partition in hosted if partition.has_failed}
        self._work_if_wanted()

    def _work_if_wanted(self) -> None:
        if self._hosted.failures or self._again or self._strays:
            self._changed.set()

    async def _apply(self, image: ClusterImage) -> None:
        changes = await self._changes(image)
        wanted = {key: registration for key, registration in changes.items() if registration is not None}
        removed = [key for key, registration in changes.items() if registration is None and self._is_hosted(key)]
        # Removals first: a topic recreated under the same name takes over its directory.
        await _change(removed, lambda key: self._supervised(key, self._remove(key, image)))
        self._strays.difference_update(key.topic_partition for key in wanted)
        for stray in sorted(self._strays):
            await self._delete_stray(stray, image)
        async with self._expecting(wanted):
            await _change(wanted, lambda key: self._supervised(key, self._set_up(key, wanted[key])))
        self._applied = image
        self._moves.on_image()

    def _expecting(self, wanted: Collection[TopicIdPartition]) -> AbstractAsyncContextManager[None]:
        """Let the tier read the metadata of what is about to be hosted while logs are opened and made."""
        if self._tier is None:
            return nullcontext()
        failed = self._hosted.failures
        new = [key for key in wanted if not self._is_hosted(key) and key.topic_partition not in failed]
        policies = {topic: TierPolicy.of(topic, self._configs.config_of(topic)) for topic in {key.topic for key in new}}
        return self._tier.expecting([key for key in new if policies[key.topic].mode is not TierMode.UNTIERED])

    async def _changes(self, image: ClusterImage) -> Changes:
        """What to look at: at the start everything, then what is different, and what has to be tried again."""
        node_id, again = self._services.node_id, self._again
        self._again = {}
        if self._applied is None:
            everything: Changes = dict(image.hosted_by(node_id))
            names = {key.topic_partition for key in everything}
            self._strays = set(self._logs.known_partitions - names)
            return everything
        changes = await exhausted(changed_steps(self._applied, image, node_id), STEP_PARTITIONS)
        for name in list(self._hosted.failures):
            registration = image.partition(name)
            if registration is not None and node_id in registration.replicas:
                changes[image.topics[name.topic].id_partition(name.partition)] = registration
            elif name in self._hosted.partitions:
                changes[self._hosted.partitions[name].partition] = None
            else:
                del self._hosted.failures[name]
                self._failed.forget(name)
                self._directories.forget(name)
                self._strays |= {name} & self._logs.known_partitions
        for key in again:
            registration = image.partition(key.topic_partition)
            if registration is not None and image.topic_names.get(key.topic_id) == key.topic:
                changes.setdefault(key, registration if node_id in registration.replicas else None)
        return changes

    def _is_hosted(self, key: TopicIdPartition) -> bool:
        hosted = self._hosted.partitions.get(key.topic_partition)
        return hosted is not None and hosted.partition == key

    async def _delete_stray(self, name: TopicPartition, image: ClusterImage) -> None:
        """Delete a log that was unassigned while this broker was down. If the topic was deleted, so may have been its
        leader: any replica then deletes what the tier holds.
        """
        if name not in self._logs.known_partitions or name in self._hosted.partitions:
            self._strays.discard(name)
            return
        _log.warning("%s is no longer assigned to this broker: deleting its log", name)
        await self._moves.stop(name)
        try:
            topic_id = await self._logs.topic_id_of(name)
            # Before the log goes: only its directory still knows the topic id, and the objects would stay for ever.
            if self._tier is not None and topic_id is not None and topic_id not in image.topic_names:
                await self._tier.delete_remote_partition(TopicIdPartition(topic_id, name.topic, name.partition))
            await self._logs.delete(name)
            self._strays.discard(name)
        except OUTSIDE as error:
            _log.error("%s could not be deleted, trying again: %s", name, error)

    async def _supervised(self, key: TopicIdPartition, work: Awaitable[None]) -> None:
        """Report what goes wrong with one partition, keep it as the reason why it is not served, and try again."""
        name = key.topic_partition
        try:
            await work
        except OUTSIDE as error:
            # It is tried again at every tick: an operator needs the reason once.
            if self._hosted.failures.get(name) != str(error):
                _log.error("%s is offline on this broker, trying again: %s", name, error)
            self._hosted.failures[name] = str(error)
        except Exception as error:  # noqa: BLE001 - the supervisor of this partition's changes
            _log.exception("internal error in %s: the replica is offline on this broker, trying again", name)
            self._hosted.failures[name] = f"internal error: {error!r}"
        else:
            self._hosted.failures.pop(name, None)

    # -- one partition ------------------------------------------------------------------------------------------------

    async def _set_up(self, key: TopicIdPartition, registration: PartitionRegistration) -> None:
        name = key.topic_partition
        partition = self._hosted.partitions.get(name)
        if partition is not None and partition.has_failed:
            await self._take_out_of_service(partition, registration, str(partition.log.state.failure))
            partition = None
        if partition is None:
            try:
                partition = await self._open(key, registration)
            # The log is sound, and no other replica is to take over: do not report it LOST.
            except _StaleTopicError:
                raise
            except OUTSIDE:
                self._report_lost(key, registration)
                raise
        self._configure(partition)
        self._directories.report_in_use(key, registration)
        try:
            await self._set_role(partition, registration)
        # A replica that cannot write must not stay in the ISR: producers with acks=all would wait for it.
        except OSError as error:
            await self._take_out_of_service(partition, registration, str(error))
            raise

    def log_failed(self, partition: Partition) -> None:
        """Report the replica at the instant of the failure (`ReplicaListener`): without appends nothing else would
        notice it, and producers with acks=all wait for this replica until it has left the ISR.
        """
        key = partition.partition
        registration = self._hosted.image.partition(key.topic_partition)
        if self._is_hosted(key) and registration is not None:
            self._directories.report_lost(key, registration)
            self._again[key] = None
            self._changed.set()

    async def _take_out_of_service(
        self, partition: Partition, registration: PartitionRegistration, reason: str
    ) -> None:
        self._failed.add(partition, reason)
        # The next attempt begins at once and may recover the log for long: meanwhile it is offline, with this reason.
        self._hosted.failures[partition.partition.topic_partition] = reason
        self._directories.report_lost(partition.partition, registration)
        await self._let_go(partition.partition)

    def _report_lost(self, key: TopicIdPartition, registration: PartitionRegistration) -> None:
        """Its log is not open. One that never was by this process may be counted on only if the image says so."""
        is_in_isr = self._services.node_id in registration.isr
        if self._failed.last_epoch(key) != NO_EPOCH or is_in_isr:
            self._directories.report_lost(key, registration)

    async def _open(self, key: TopicIdPartition, registration: PartitionRegistration) -> Partition:
        """Return the partition, hosted from now on."""
        name = key.topic_partition
        now = self._hosted.image.partition(name)
        if self._logs.may_open_again(name):
            self._failed.add_unopened(key)
        if await self._treat_damage(key, registration):
            await self._logs.reopen(name)
        if key in self._failed:
            await self._failed.retry(key, (registration, now or registration))
        # Before `create`, which puts the previous incarnation of the log aside, and with it the topic id.
        await self._delete_previous_topic(key)
        directory_id = registration.directory_of(self._services.node_id)
        log = await self._logs.create(name, key.topic_id, directory_id=directory_id)
        partition = Partition(key, log, self._services, self)
        self._hosted.add(name, partition)
        self._thin.opened(partition)
        return partition

    async def _treat_damage(self, key: TopicIdPartition, registration: PartitionRegistration) -> bool:
        """Return whether to open a damaged log once more. Raise KafkaError if it is left to the operator."""
        name = key.topic_partition
        now = self._hosted.image.partition(name)
        is_damaged = damage_of(self._logs, name) is not None
        if now is None or not is_damaged or await self._logs.topic_id_of(name) not in (None, key.topic_id):
            return False
        if await self._damaged.is_to_reopen(name, (registration, now), self._failed.last_epoch(key)):
            return True
        self._failed.forget(name)
        return False

    async def _delete_previous_topic(self, key: TopicIdPartition) -> None:
        """The log that is here may be of a topic of the same name, which was deleted while this broker was down, and
        no other broker may have had a replica of it. _StaleTopicError if the tier's deletion cannot be noted.
        """
        topic_id = await self._logs.topic_id_of(key.topic_partition)
        if self._tier is not None and topic_id not in (None, key.topic_id):
            try:
                await self._tier.delete_remote_partition(replace(key, topic_id=topic_id))
            except OUTSIDE as error:
                code = error.code if isinstance(error, KafkaError) else ErrorCode.kafka_storage_error
                raise _StaleTopicError(code, f"the earlier topic's remote segments: {describe_error(error)}") from error

    def _configure(self, partition: Partition) -> None:
        config = self._configs.config_of(partition.partition.topic)
        if partition.log.state.config is not config and partition.log.state.config != config:
            partition.log.update_config(config)
            partition.on_config()
            if self._tier is not None:
                self._tier.config_changed(partition.partition)

    async def _set_role(self, partition: Partition, registration: PartitionRegistration) -> None:
        role = _Role(registration.leader, registration.leader_epoch)
        name = partition.partition.topic_partition
        was_in_isr = partition.is_in_isr
        partition.note_registration(registration)
        # From now on acknowledgements rely on this log: after a restart it must not count as empty.
        if partition.is_in_isr and partition.log.state.is_adopted:
            await self._confirm_adoption(partition)
        if partition.is_in_isr and not was_in_isr and partition.log.state.config.remote_storage_enable:
            self._thin.on_change()
        # Taken out until the change is complete: one that fails half-way is made again in full.
        if self._roles.pop(name, None) == role:
            self._roles[name] = role
            return
        if registration.leader == self._services.node_id:
            await self._lead(partition, registration)
        else:
            await self._follow(partition, registration)
        self._roles[name] = role

    async def _confirm_adoption(self, partition: Partition) -> None:
        """It has joined the ISR. Tried again later if the disk fails."""
        try:
            await partition.log.confirm_adoption()
            self._thin.joined(partition)
        except OSError as error:
            self._again[partition.partition] = None
            _log.warning("%s: could not be noted as a full replica, trying again: %s", partition.partition, error)

    async def _lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        # The fetcher first: nothing of the old leader may be appended after this log begins an epoch of its own.
        await self._fetchers.remove(partition.partition)
        if not partition.log.state.log_start_known:
            self._wait_for_log_start(partition)
        self._without_log_start.discard(partition.partition)
        await partition.lead(registration)
        leadership = partition.leader()
        self._role_listener.led(partition)
        _log.info(
            "%s: leader at epoch %d from offset %d, ISR %s",
            partition.partition.topic_partition,
            registration.leader_epoch,
            partition.log.state.log_end_offset,
            list(registration.isr),
        )
        if self._tier is not None:
            self._tier.lead(partition.partition, partition.log, registration.leader_epoch, leadership.low_watermark)

    def _wait_for_log_start(self, partition: Partition) -> None:
        """Let the remote log manager find the log start in the ledger: the log-start checkpoint of a tiered log is
        lost.
        """
        if self._tier is not None and partition.partition not in self._without_log_start:
            self._without_log_start.add(partition.partition)
            self._tier.follow(partition.partition, partition.log)
        raise KafkaError(
            ErrorCode.kafka_storage_error, "its log start is unknown until the remote log metadata has been read"
        )

    async def _follow(self, partition: Partition, registration: PartitionRegistration) -> None:
        await partition.step_down(registration)
        self._role_listener.resigned(partition.partition.topic_partition)
        await self._fetchers.remove(partition.partition)
        if self._tier is not None:
            self._tier.follow(partition.partition, partition.log)
        if registration.leader != NO_LEADER and (partition.is_in_isr or not self._is_leaving()):
            self._fetchers.add(registration.leader, self._followed(partition))

    def _is_leaving(self) -> bool:
        broker = self._hosted.image.brokers.get(self._services.node_id)
        return broker is not None and broker.is_leaving

    def role_changed(self, partition: Partition) -> None:
        """Let those know that answer from the roles (`ReplicaListener`)."""
        self._hosted.role_changed(partition.partition.topic_partition)

    def low_watermark_raised(self, partition: Partition) -> None:
        """Let the tier delete what it holds below it (`ReplicaListener`)."""
        if self._tier is not None:
            self._tier.wake(partition.partition)

    def _followed(self, partition: Partition) -> FollowedPartition:
        return FollowedPartition(partition, self._logs, self, has_tier=self._tier is not None)

    def log_replaced(self, partition: Partition) -> None:
        """Let the tier follow the new log (`ReplicaListener`)."""
        self._thin.opened(partition)
        if self._tier is not None:
            self._tier.follow(partition.partition, partition.log)

    async def _remove(self, key: TopicIdPartition, image: ClusterImage) -> None:
        partition = self._hosted.partitions[key.topic_partition]
        is_leader = partition.leadership is not None
        is_tiered = is_leader or partition.log.state.config.remote_storage_enable
        await self._moves.stop(key.topic_partition)
        await self._let_go(key)
        # Noted durably before the log goes: after a crash in between, the log itself leads to the deletion again.
        if self._tier is not None and is_tiered and key.topic_id not in image.topic_names:
            await self._tier.delete_remote_partition(key, is_leader=is_leader)
        await self._logs.delete(key.topic_partition)
        self._failed.forget(key.topic_partition)
        self._directories.forget(key.topic_partition)

    async def _let_go(self, key: TopicIdPartition) -> None:
        """Stop everything that uses the log."""
        name = key.topic_partition
        # First out of the look-up: no new request may find a partition that is being closed.
        partition = self._hosted.remove(name)
        self._roles.pop(name, None)
        self._without_log_start.discard(key)
        await self._fetchers.remove(key)
        await partition.close()
        self._role_listener.resigned(name)
        if self._tier is not None:
            await self._tier.stop(key)


async def _change(keys: Collection[TopicIdPartition], do: Callable[[TopicIdPartition], Awaitable[None]]) -> None:
    await for_each(keys, do, at_once=CHANGES_MAX, weight=CHANGE_WEIGHT)
