"""The controller as a machine without I/O: requests and the clock in, records and responses out.

    core = ControllerCore(config, random)
    core.replay(record, offset)                          each committed record, in order; all nodes
    core.become_active(now_ms)                           this node leads the quorum and has replayed its own log
    result = core.handle(request, moment)                decides; changes nothing in the image
    core.replay(record, offset), each of result.records  once they are committed, before the next decision
    core.written(result, last_offset)                    then
    result.response                                      leaves

The active controller decides on what is committed, one decision after the other: losing the lead takes nothing back.

Timers are data too: at `next_deadline_ms()` call `fire(moment)` until it gives None. In this order: a transaction that
the controller before began and did not end is aborted, or it would swallow all that follows (KIP-868); sessions that
ended, one broker at a time; partitions that may get a leader or end a reassignment now; preferred leaders that come
back (`leader_returns`); the balancing of leaders.

Requests and responses are message classes in their newest form (`protocol.messages`): no decision knows a version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, TypeVar, cast

from ...protocol import ApiKey
from ...protocol.messages import Message, Request, ResponseT, replaced
from ...protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    UnregisterBrokerRequest,
)
from ...protocol.messages.cluster import UpdateFeaturesRequest
from ...protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from ...protocol.messages.quotas import AlterClientQuotasRequest
from ...protocol.messages.security import AlterUserScramCredentialsRequest, CreateAclsRequest, DeleteAclsRequest
from ...protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from ...protocol.wire import Steps, run_to_end
from ..image.image import taken_up_in_steps
from ..image.registrations import PartitionKey
from ..records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from .alter_partition import alter_partition, assign_replicas_to_dirs
from .broker_heartbeat import expired, fence, heartbeat, next_expiry_ms, observe_heartbeat, shutdown_began
from .broker_registration import register_broker, register_controller, unregister_broker
from .cluster import allocate_producer_ids
from .config import ControllerConfig
from .configs import alter_configs, incremental_alter_configs
from .fast_failover import FastFailover, ProbeOutcome, Verdict
from .features import update_features
from .leader_election import balance_leaders, complete_reassignments, elect_leaderless, elect_leaders, return_leaders
from .leader_returns import LeaderReturns
from .partition_counts import create_partitions
from .quotas.alter import alter_client_quotas
from .quotas.mutations import MutationClient, MutationQuotas, free_of_charge
from .reassignment import alter_partition_reassignments, list_partition_reassignments
from .security.acls import create_acls, delete_acls
from .security.scram import alter_user_scram_credentials
from .state import UNCLEAN_KEY, ControllerResult, ControllerState, Moment, RandomSource
from .thin import NOTHING_REPLAYED
from .topics import create_topics, delete_topics

RECORDS_PER_BATCH_MAX: Final = 10_000
"""The most records of one append to the quorum, as in Kafka."""

RECORDS_PER_PIECE_MAX: Final = 1_000
"""The most records of one append where they may come in pieces, so that none occupies an event loop for long."""

_RequestT = TypeVar("_RequestT", bound="Request[Message | None]")
_Decision = Callable[..., ControllerResult[object]]


def _row(
    kind: type[_RequestT], decide: Callable[[ControllerState, _RequestT, Moment], ControllerResult[object]]
) -> tuple[ApiKey, _Decision]:
    """Return a row of the table; its types say that the function takes the requests of its API."""
    return ApiKey(kind.api_key), decide


def _timeless(
    kind: type[_RequestT], decide: Callable[[ControllerState, _RequestT], ControllerResult[object]]
) -> tuple[ApiKey, _Decision]:
    """Return the row of a decision that does not depend on the time."""
    return _row(kind, lambda state, request, _: decide(state, request))


HANDLERS: Final = dict(
    (
        _row(BrokerRegistrationRequest, register_broker),
        _row(BrokerHeartbeatRequest, heartbeat),
        _timeless(UnregisterBrokerRequest, unregister_broker),
        _timeless(ControllerRegistrationRequest, register_controller),
        _timeless(AlterPartitionRequest, alter_partition),
        _timeless(AssignReplicasToDirsRequest, assign_replicas_to_dirs),
        _timeless(AllocateProducerIdsRequest, allocate_producer_ids),
        _timeless(CreateTopicsRequest, create_topics),
        _timeless(DeleteTopicsRequest, delete_topics),
        _row(CreatePartitionsRequest, create_partitions),
        _timeless(AlterPartitionReassignmentsRequest, alter_partition_reassignments),
        _timeless(ListPartitionReassignmentsRequest, list_partition_reassignments),
        _timeless(ElectLeadersRequest, elect_leaders),
        _timeless(IncrementalAlterConfigsRequest, incremental_alter_configs),
        _timeless(AlterConfigsRequest, alter_configs),
        _timeless(UpdateFeaturesRequest, update_features),
        _timeless(CreateAclsRequest, create_acls),
        _timeless(DeleteAclsRequest, delete_acls),
        _timeless(AlterUserScramCredentialsRequest, alter_user_scram_credentials),
        _timeless(AlterClientQuotasRequest, alter_client_quotas),
    )
)
"""What is decided from the state alone. DescribeCluster also needs to know who asks, and who leads (`cluster`)."""


class ControllerCore:
    """One controller's. `state` is for looking."""

    def __init__(self, config: ControllerConfig, random: RandomSource) -> None:
        self.state = ControllerState(config, random)
        self._failover: FastFailover | None = None
        self._is_sweep_due = False
        self._balance_at_ms = 0
        self._replayed_offset = NOTHING_REPLAYED
        self._returns = LeaderReturns()
        self._mutations = MutationQuotas(config.mutation_burst_s)

    @property
    def is_active(self) -> bool:
        return self._failover is not None

    def become_active(self, now_ms: int) -> None:
        """Every broker gets a fresh session; what a failover left undone is due at once."""
        config = self.state.config
        self.state.sessions.begin(self.state.image.brokers.values(), now_ms)
        self._failover = FastFailover(config.fast_failover, config.session_timeout_ms)
        self._failover.begin(self.state.image, now_ms)
        self.state.thin.begin(self._replayed_offset)
        self._mutations = MutationQuotas(config.mutation_burst_s)
        self._returns = LeaderReturns()
        self._is_sweep_due = True
        self._balance_at_ms = now_ms + config.leader_imbalance_check_interval_ms

    def resign(self) -> None:
        """Another controller decides from now on."""
        self._failover = None

    def replay(self, record: MetadataRecord, offset: int) -> None:
        """Take up one record, own or not. `offset` is its own, or that of the last record of its batch."""
        run_to_end(self.replay_steps([record], offset, 1))

    def replay_steps(self, records: Iterable[MetadataRecord], offset: int, step_records: int) -> Steps[None]:
        """Do the same for the records of one batch, in steps of so many. No decision may fall between two steps."""
        self._replayed_offset = offset
        yield from taken_up_in_steps(
            self.state.image, records, lambda record: self._take_up(record, offset), step_records
        )

    def _take_up(self, record: MetadataRecord, offset: int) -> None:
        if isinstance(record, PartitionChangeRecord) and record.isr is not None and self.is_active:
            self._replay_isr(record, offset)
            return
        self.state.image.take_up(record)
        match record:
            case RegisterBrokerRecord() | UnregisterBrokerRecord():
                self.state.sessions.forget(record.broker_id)
                self.state.thin.forget(record.broker_id)
            case BrokerRegistrationChangeRecord() if record.fenced:
                self._fencing_changed(record)
            case ConfigRecord() if record.name == UNCLEAN_KEY:
                self._is_sweep_due = True

    def load_snapshot(self, records: Iterable[MetadataRecord], offset: int, step_records: int) -> Steps[None]:
        """Replace the state by that of a snapshot, whose last record has `offset`, in steps of so many records. A
        standby does this; the state before stays in place until the last step.
        """
        assert not self.is_active, offset
        loaded = ControllerCore(self.state.config, self.state.random)
        for number, record in enumerate(records, start=1):
            loaded.replay(record, offset)
            if number % step_records == 0:
                yield
        self.state = loaded.state
        self._returns = loaded._returns
        self._is_sweep_due = loaded._is_sweep_due
        self._replayed_offset = loaded._replayed_offset

    def _replay_isr(self, record: PartitionChangeRecord, offset: int) -> None:
        """Replay a partition change, and note the replicas that join the ISR. Our transactions never add to an ISR, so
        the image is still the one before the record.
        """
        key = _key_of(record)
        before = self.state.image.partition(key)
        joined = set(record.isr or ()).difference(() if before is None else before.isr)
        self.state.image.take_up(record)
        for replica in joined:
            self.state.thin.joined(key, replica, offset)
        self._may_lead(key, joined)

    def _may_lead(self, key: PartitionKey, replicas: Collection[int]) -> None:
        """These have become able to."""
        now = self.state.image.partition(key)
        if now is not None and now.leader != now.preferred_leader and now.preferred_leader in replicas:
            self._returns.note(key)

    def _fencing_changed(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self.state.image.brokers[record.broker_id]
        if broker.fenced:
            self.state.sessions.forget(record.broker_id)

    def handle(self, request: Request[ResponseT], moment: Moment) -> ControllerResult[ResponseT]:
        """Decide a request. The image stays as it is; a heartbeat is noted as a sign of life."""
        assert self.is_active, (request, moment)
        if isinstance(request, BrokerHeartbeatRequest):
            self.observe(request, moment)
        decide = HANDLERS[ApiKey(request.api_key)]
        if isinstance(request, BrokerRegistrationRequest) and self._failover is not None:
            result = decide(
                self.state,
                request,
                moment,
                is_superseded=self._is_superseded(self._failover, request),
                is_recently_fenced=self._failover.is_recently_fenced(request.broker_id, moment.now_ms),
            )
        else:
            result = decide(self.state, request, moment)
        return cast(ControllerResult[ResponseT], result)

    def handle_of(
        self, request: Request[ResponseT], moment: Moment, client: MutationClient
    ) -> ControllerResult[ResponseT]:
        """Decide a request of a client whose changes to topics are limited. The response says how long it has to wait;
        what it takes of its quota is taken even if the records are never written.
        """
        quota = self._mutations.of(self.state.image.quotas, client, moment.now_ms)
        self.state.charge = quota.charge
        try:
            result = self.handle(request, moment)
        finally:
            self.state.charge = free_of_charge
        if not quota.throttle_ms or result.response is None:
            return result
        return replace(result, response=replaced(result.response, throttle_time_ms=quota.throttle_ms))

    def observe(self, request: BrokerHeartbeatRequest, moment: Moment) -> None:
        """A heartbeat came. To be called when it arrives if it may have to wait for being decided."""
        for key in observe_heartbeat(self.state, request, moment):
            self._may_lead(key, (request.broker_id,))
        if self._failover is not None and self.knows(request.broker_id, request.broker_epoch):
            self._failover.heartbeat_received(request.broker_id)

    def written(self, result: ControllerResult[object], last_offset: int) -> None:
        """The records of a result, up to `last_offset`, are committed and replayed."""
        if result.leaving is not None:
            shutdown_began(self.state, result.leaving, last_offset)

    # Failing brokers.

    def _is_superseded(self, failover: FastFailover, request: BrokerRegistrationRequest) -> bool:
        """Return whether a broker takes the place of one that is proven dead."""
        addresses = [(item.host, item.port) for item in request.listeners]
        return failover.is_superseded(self.state.image, request.broker_id, addresses)

    def knows(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether this is the identity of a registered broker; a heartbeat's sender may be any process."""
        broker = self.state.image.brokers.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def on_pause(self, now_ms: int) -> None:
        """This process paused, so that silence says nothing about brokers: all sessions restart, and none is fenced
        fast before most of them have sent a heartbeat again.
        """
        self.state.sessions.extend(now_ms)
        if self._failover is not None:
            self._failover.begin(self.state.image, now_ms)

    def connection_lost(self, broker_id: int, epoch: int) -> Verdict:
        """The connection of the heartbeats of a broker in that epoch has ended: PROBE its listeners, or WAIT."""
        if self._failover is None:
            return Verdict.WAIT
        return self._failover.connection_lost(self.state.image, broker_id, epoch)

    def challenged(self, broker_id: int) -> Verdict:
        """A newcomer was refused because of this broker: PROBE its listeners, or WAIT."""
        return Verdict.WAIT if self._failover is None else self._failover.challenged(self.state.image, broker_id)

    def is_in_contact(self, broker_id: int) -> bool:
        """Return whether the last that this active controller knows of the broker is a heartbeat."""
        return self._failover is not None and self._failover.is_in_contact(broker_id)

    def look_for_silent(self, now_ms: int) -> list[int] | None:
        """The brokers to probe, which send this new controller no heartbeats; None once it need not probe by itself."""
        return None if self._failover is None else self._failover.look_for_silent(self.state.image, now_ms)

    def probed(
        self, broker_id: int, epoch: int, outcome: ProbeOutcome, now_ms: int
    ) -> tuple[Verdict, ControllerResult[None]]:
        """What a probe of the broker in that epoch showed. FENCE comes with the records that do it."""
        if self._failover is None:
            return Verdict.WAIT, ControllerResult([], None)
        verdict = self._failover.probed(self.state.image, broker_id, epoch, outcome, now_ms)
        records = list(fence(self.state, broker_id)) if verdict is Verdict.FENCE else []
        return verdict, ControllerResult(records, None, is_atomic=False)

    # Timers.

    def next_deadline_ms(self) -> int | None:
        """When to call `fire`; None while there is nothing to wait for."""
        if not self.is_active:
            return None
        deadlines = [next_expiry_ms(self.state)]
        if self._is_sweep_due or self.state.image.is_in_transaction:
            deadlines.append(0)
        if self.state.config.auto_leader_rebalance_enable:
            deadlines += [self._balance_at_ms, self._returns.deadline_ms()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def next_expiry_ms(self) -> int | None:
        """When the first session ends unless a heartbeat comes."""
        return next_expiry_ms(self.state)

    def fire(self, moment: Moment) -> ControllerResult[None] | None:
        """The next thing that is due, or None. Replay its records before the next call."""
        if not self.is_active:
            return None
        if self.state.image.is_in_transaction:  # of a controller that did not come to its end
            return ControllerResult([AbortTransactionRecord()], None)
        silent = expired(self.state, moment.now_ms)
        if silent:
            return ControllerResult(list(fence(self.state, silent[0])), None, is_atomic=False)
        if self._is_sweep_due:
            self._is_sweep_due = False
            records = chain(elect_leaderless(self.state), complete_reassignments(self.state))
            return ControllerResult(list(records), None, is_atomic=False)
        return self._balance(moment.now_ms) if self.state.config.auto_leader_rebalance_enable else None

    def _balance(self, now_ms: int) -> ControllerResult[None] | None:
        config = self.state.config
        returning = self._returns.take(now_ms, config.session_timeout_ms, config.elections_per_imbalance_max)
        if returning:
            records = list(return_leaders(self.state, returning))
            self._returns.returned(map(_key_of, records))
            return ControllerResult(records, None, is_atomic=False)
        if now_ms < self._balance_at_ms:
            return None
        result = balance_leaders(self.state)
        if result.response:
            self._balance_at_ms = now_ms
        else:
            self._balance_at_ms = now_ms + config.leader_imbalance_check_interval_ms
            self._returns.balanced()
        return ControllerResult(result.records, None, is_atomic=False)


def _key_of(record: PartitionChangeRecord) -> PartitionKey:
    assert record.topic_id is not None, record
    return PartitionKey(record.topic_id, record.partition_id)


def batches(
    result: ControllerResult[object], whole_max: int = RECORDS_PER_BATCH_MAX, piece_max: int = RECORDS_PER_PIECE_MAX
) -> Iterator[Sequence[MetadataRecord]]:
    """The appends that a result takes. Atomic ones that are too many for one batch go into a transaction (KIP-868),
    which every reader takes up as a whole.
    """
    records, size_max = list(result.records), piece_max
    if result.is_atomic:
        size_max = whole_max
        if len(records) > whole_max:
            records = [BeginTransactionRecord(), *records, EndTransactionRecord()]
    for first in range(0, len(records), size_max):
        yield records[first : first + size_max]
