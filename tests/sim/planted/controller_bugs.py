"""Bugs of the controller: what it decides, what it remembers, and what it takes for proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch
from uuid import NAMESPACE_OID, uuid5

from tierfetch.controller import reachability
from tierfetch.controller.core import (
    alter_partition,
    broker_changes,
    broker_heartbeat,
    broker_registration,
    cluster,
    fast_failover,
    partition_change,
    reassignment_replicas,
    state,
    topics,
)
from tierfetch.controller.core import machine as core
from tierfetch.controller.core.partition_change import Election, PartitionChange
from tierfetch.controller.core.state import ControllerResult, ControllerState
from tierfetch.controller.core.thin import ThinReplicas, Warmth
from tierfetch.controller.image.indexes import PartitionIndexes
from tierfetch.controller.image.registrations import PartitionKey, PartitionRegistration
from tierfetch.controller.records import ProducerIdsRecord
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.sim.scenarios.cluster_options import FREQUENT_BYTES
from tierfetch.tests.sim.planted.registry import planted

CONTROLLER_MODEL = "tests/controller/test_model.py"


@planted(
    "a stale AlterPartition is accepted",
    file="controller/core/alter_partition.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.DEPOSE_LEADERS, FaultKind.PARTITION, FaultKind.REORDERING),
)
def stale_alter_partition() -> Iterator[None]:
    with patch.object(alter_partition, "_check_epochs", lambda *_: None):
        yield


@planted(
    "a leader is elected out of the ISR",
    file="controller/core/partition_change.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.PROCESS_CRASH, FaultKind.MACHINE_CRASH),
)
def elected_out_of_isr() -> Iterator[None]:
    original = PartitionChange._elect

    def elect(self: PartitionChange, target: Any) -> tuple[int, bool]:
        leader, unclean = original(self, target)
        live = [replica for replica in target.replicas if self._is_live(replica)]
        return (live[0], False) if leader == -1 and live else (leader, unclean)

    with patch.object(PartitionChange, "_elect", elect):
        yield


@planted(
    "unclean elections without being allowed",
    file="controller/core/broker_changes.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.PROCESS_CRASH,),
)
def unclean_by_default() -> Iterator[None]:
    with patch.object(broker_changes, "election_of", lambda *_: Election.UNCLEAN):
        yield


@planted(
    "the leader epoch is forgotten",
    file="controller/image/registrations.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.MOVE_LEADER,),
)
def forgotten_leader_epoch() -> Iterator[None]:
    original = PartitionRegistration.changed_by

    def changed_by(self: PartitionRegistration, change: Any) -> PartitionRegistration:
        return original(self, change)._replace(leader_epoch=self.leader_epoch)

    with patch.object(PartitionRegistration, "changed_by", changed_by):
        yield


@planted(
    "the partition epoch is forgotten when only the ISR changes",
    file="controller/image/registrations.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.PARTITION,),
)
def forgotten_partition_epoch() -> Iterator[None]:
    original = PartitionRegistration.changed_by

    def changed_by(self: PartitionRegistration, change: Any) -> PartitionRegistration:
        after = original(self, change)
        return after._replace(partition_epoch=self.partition_epoch) if change.leader == -2 else after

    with patch.object(PartitionRegistration, "changed_by", changed_by):
        yield


@planted(
    "the epoch stays when a replica is taken off the list",
    file="controller/core/partition_change.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    needs_quiet=True,
    replication_factor=(2,),
    administrator_pace_ms=(400,),
)
def no_bump_for_removed_replicas() -> Iterator[None]:
    def leader_to_write(self: PartitionChange, leader: int, target: Any) -> int:
        return leader if leader != self.before.leader else -2

    with patch.object(PartitionChange, "_leader_to_write", leader_to_write):
        yield


@planted(
    "a reassignment is lost in the snapshot",
    file="controller/image/registrations.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.MOVE_REPLICA, FaultKind.PROCESS_CRASH),
    snapshot_bytes=(FREQUENT_BYTES,),
    replication_factor=(2,),
)
def lost_reassignment() -> Iterator[None]:
    original = PartitionRegistration.to_record

    def to_record(self: PartitionRegistration, key: Any) -> Any:
        return original(self._replace(adding_replicas=(), removing_replicas=()), key)

    with patch.object(PartitionRegistration, "to_record", to_record):
        yield


@planted(
    "a reassignment ends before its new replicas are in sync",
    file="controller/core/partition_change.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.SLOW_LINK,),
)
def early_end_of_reassignment() -> Iterator[None]:
    original = reassignment_replicas.complete

    def complete(target: Any) -> Any:
        return original(target._replace(adding=target.adding[1:])) if target.adding else original(target)

    with patch.object(partition_change, "complete", complete):
        yield


@planted(
    "a live broker is fenced",
    file="controller/core/sessions.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.PAUSE,),
    session_timeout_ms=(1_500, 3_000),
)
def impatient_session() -> Iterator[None]:
    def expiry_ms(self: Any, broker: Any, timeout_ms: int) -> int:
        session = self.get(broker.broker_id)
        return self.active_since_ms + timeout_ms if session is None else session.last_contact_ms + timeout_ms // 2

    with patch("tierfetch.controller.core.sessions.BrokerSessions.expiry_ms", expiry_ms):
        yield


@planted(
    "a mere disconnect is taken for proof",
    file="controller/reachability.py",
    scenario="cluster",
    faults=(FaultKind.DISCONNECT,),
    fast_failover=(True,),
)
def any_failure_is_a_refusal() -> Iterator[None]:
    original = reachability.Reachability.outcome

    def outcome(self: Any, broker: Any, sight: Any) -> fast_failover.ProbeOutcome:
        found = original(self, broker, sight)
        is_failure = found is fast_failover.ProbeOutcome.NO_PROOF
        return fast_failover.ProbeOutcome.REFUSED if is_failure else found

    with patch.object(reachability.Reachability, "outcome", outcome):
        yield


@planted(
    "one refused connect is taken for proof",
    file="controller/core/fast_failover.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.DISCONNECT,),
    fast_failover=(True,),
)
def one_refusal() -> Iterator[None]:
    with patch.object(fast_failover, "SIGNS_NEEDED", 1):
        yield


@planted(
    "fast failover fences a majority",
    file="controller/core/fast_failover.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.PROCESS_CRASH,),
    fast_failover=(True,),
    session_timeout_ms=(3_000,),
)
def no_minority_rule() -> Iterator[None]:
    def judge(self: Any, image: Any, broker_id: int, now_ms: int) -> Any:
        """Each broker is held against all that there are: nobody remembers the one before."""
        is_minority = 2 * len(self._in_contact - {broker_id}) > len(image.brokers)
        return fast_failover.Verdict.FENCE if is_minority else fast_failover.Verdict.WAIT

    with patch.object(fast_failover.FastFailover, "_judge", judge):
        yield


@planted(
    "a new controller fences before it hears most of the brokers",
    file="controller/core/fast_failover.py",
    scenario="cluster",
    faults=(FaultKind.PROCESS_CRASH,),
    fast_failover=(True,),
    combined=(1, 3),
)
def fences_unheard() -> Iterator[None]:
    def hears_most(_: Any, image: Any, gone: Any) -> bool:
        """Those that are left are most of the brokers: whether anything came of them is not asked."""
        live = {broker.broker_id for broker in image.brokers.values() if not broker.fenced}
        return 2 * len(gone) < len(live | gone)

    with patch.object(fast_failover.FastFailover, "_reaches_most", hears_most):
        yield


@planted(
    "a wiped replica counts as what it was",
    file="controller/core/broker_registration.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.WIPE, FaultKind.PROCESS_CRASH, FaultKind.MACHINE_CRASH),
    replication_factor=(2,),
)
def wiped_replica_stays() -> Iterator[None]:
    with patch.object(broker_registration, "_is_lost", lambda *_: lambda _: False):
        yield


@planted(
    "the last member leaves the ISR after an unclean stop",
    file="controller/core/broker_registration.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.POWER_FAILURE,),
)
def last_member_leaves() -> Iterator[None]:
    with patch.object(broker_registration, "_is_lost", lambda *_: lambda _: True):
        yield


@planted(
    "a fenced broker stays in its ISRs",
    file="controller/core/broker_heartbeat.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.PARTITION,),
)
def fenced_broker_stays() -> Iterator[None]:
    original = broker_heartbeat.without_broker

    def without(state: Any, broker_id: int, *more: Any) -> Iterator[Any]:
        """What it leads gets another leader; where it follows, its leader will find out by itself."""
        image = state.image
        for record in original(state, broker_id, *more):
            if image.registration(PartitionKey(record.topic_id, record.partition_id)).leader == broker_id:
                yield record

    with patch.object(broker_heartbeat, "without_broker", without):
        yield


@planted(
    "a fenced broker joins an ISR",
    file="controller/core/alter_partition.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.CRASH_JOINER,),
)
def fenced_broker_joins() -> Iterator[None]:
    with patch.object(alter_partition, "_may_join", lambda *_: True):
        yield


@planted(
    "a thin replica leads while a full one lives",
    file="controller/core/state.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.WIPE, FaultKind.MOVE_LEADER),
    follows_tier=(True,),
    bootstrap_policy=("tier-first", "bounded-local"),
    thin_warm_ms=(15_000, 60_000),
    replication_factor=(3,),
)
def thin_replica_leads() -> Iterator[None]:
    with patch.object(ControllerState, "warmth", lambda *_: Warmth.FULL):
        yield


@planted(
    "who has joined the ISR and was not reported since counts as full",
    file="controller/core/thin.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.WIPE, FaultKind.MOVE_LEADER, FaultKind.MOVE_REPLICA),
    follows_tier=(True,),
    bootstrap_policy=("tier-first", "bounded-local"),
    thin_warm_ms=(15_000, 60_000),
    replication_factor=(3,),
)
def unknown_is_full() -> Iterator[None]:
    original = ThinReplicas.warmth

    def warmth(self: ThinReplicas, key: PartitionKey, broker_id: int) -> Warmth:
        known = original(self, key, broker_id)
        return Warmth.FULL if known is Warmth.UNKNOWN else known

    with patch.object(ThinReplicas, "warmth", warmth):
        yield


@planted(
    "a topic created again has the id of the old one",
    file="controller/core/topics.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.REPLACE_TOPIC,),
    administrator_pace_ms=(400,),
)
def reused_topic_id() -> Iterator[None]:
    original = topics._create

    def create(controller: ControllerState, topic: Any, *others: Any) -> Any:
        with patch.object(ControllerState, "new_uuid", lambda _: uuid5(NAMESPACE_OID, topic.name)):
            return original(controller, topic, *others)

    with patch.object(topics, "_create", create):
        yield


@planted(
    "a broker of the past is believed",
    file="controller/core/broker_heartbeat.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    faults=(FaultKind.GHOST,),
)
def stale_broker_epoch() -> Iterator[None]:
    original = state.check_broker_epoch

    def check(image: Any, broker_id: int, epoch: int) -> Any:
        broker = image.brokers.get(broker_id)
        return original(image, broker_id, epoch if broker is None else broker.epoch)

    with patch.object(broker_heartbeat, "check_broker_epoch", check):
        yield


@planted(
    "two brokers are given the same producer ids",
    file="controller/core/cluster.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
    producers=(2,),
    transactional_producers=(1,),
)
def same_producer_ids() -> Iterator[None]:
    original = cluster.allocate_producer_ids

    def allocate(controller: Any, request: Any) -> ControllerResult:
        result = original(controller, request)
        kept = [record for record in result.records if not isinstance(record, ProducerIdsRecord)]
        return ControllerResult(kept, result.response)

    handlers = {**core.HANDLERS, core.ApiKey.ALLOCATE_PRODUCER_IDS: lambda a, b, _: allocate(a, b)}
    with patch.object(core, "HANDLERS", handlers):
        yield


@planted(
    "the index keeps brokers that left an ISR",
    file="controller/image/indexes.py",
    scenario="cluster",
    shown_by=CONTROLLER_MODEL,
)
def stale_index() -> Iterator[None]:
    original = PartitionIndexes._update_isr

    def update(self: Any, key: Any, before: Any, after: Any) -> None:
        original(self, key, (), tuple(member for member in after if member not in before))

    with patch.object(PartitionIndexes, "_update_isr", update):
        yield
