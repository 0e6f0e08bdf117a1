"""Random requests, failures and failovers; after each step the invariants of the whole image."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tierfetch.controller.core.fast_failover import ProbeOutcome, Verdict
from tierfetch.controller.core.thin import Warmth
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.registrations import NO_LEADER, RECOVERING, PartitionKey, PartitionRegistration
from tierfetch.controller.image.snapshot import snapshot_records
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.brokers import ThinReplica
from tierfetch.sim.judges.core.metadata_image import check_change
from tierfetch.tests.sim.planted.controller_bugs import CONTROLLER_MODEL
from tierfetch.tests.sim.planted.registry import shown_by

from .harness import CONFIG, Harness, directory, same
from .test_f_features_thin import TIERED, report

BUGS = shown_by(CONTROLLER_MODEL)
BROKERS = range(1, 6)
TOPICS = ("a", "b", "c")
brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
replica_lists = st.lists(brokers, min_size=1, max_size=4, unique=True)


def thin(key: PartitionKey) -> ThinReplica:
    return ThinReplica(
        topic_id=key.topic_id, partition_index=key.partition, local_start_offset=1000, local_bytes=1, age_ms=0
    )


class ReportsKept(Harness):
    """Also keeps what each broker has reported, and the joins since, as a controller should."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: dict[int, set[PartitionKey]] = {}
        self.joined: dict[int, set[PartitionKey]] = {}

    def heartbeat(self, broker_id: int, **values: Any) -> dict[str, Any]:
        if values.get("broker_epoch", self.epochs[broker_id]) == self.epochs[broker_id]:
            reported = values.get("thin_replicas", ())
            self.reported[broker_id] = {PartitionKey(item["topic_id"], item["partition_index"]) for item in reported}
            self.joined.pop(broker_id, None)
        return super().heartbeat(broker_id, **values)

    def register(self, broker_id: int, *, version: int = 4, **values: Any) -> dict[str, Any]:
        self.reported.pop(broker_id, None)
        return super().register(broker_id, version=version, **values)

    def failover(self) -> None:
        self.reported.clear()
        super().failover()

    def warmth(self, key: PartitionKey, broker_id: int) -> Warmth:
        if broker_id not in self.reported:
            return Warmth.UNKNOWN
        if key in self.reported[broker_id]:
            return Warmth.THIN
        return Warmth.UNKNOWN if key in self.joined.get(broker_id, ()) else Warmth.FULL


class ControllerModel(RuleBasedStateMachine):
    """Everything that somebody may ask a controller for, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ReportsKept()
        self.directories = dict.fromkeys(BROKERS, 0)
        self.cluster.on_change = self.check_change
        self.topic_ids: set[UUID] = set()
        self.fast_fenced_at_ms: dict[int, int] = {}
        self.next_producer_id = 0
        self.is_registering = self.is_operator_electing = False

    @initialize()
    def start(self) -> None:
        self.cluster.start(*BROKERS)
        self.topic_ids.add(self.cluster.create("a", [1, 2, 3], [3, 4, 5], configs=TIERED))
        self.wait()
        self.cluster.beat(*BROKERS)
        self.cluster.sleep(1)

    # Brokers.

    @rule(broker=brokers, wipe=st.booleans())
    def restart(self, broker: int, wipe: bool) -> None:
        if not self.cluster.image.brokers[broker].fenced:
            self.cluster.heartbeat(broker, want_fence=True)
        led = [key for key in self.partitions() if broker in self.now(key).isr]
        if wipe:
            self.directories[broker] += 1
        before = {key: self.now(key) for key in led}
        epoch = self.cluster.epochs.get(broker, -1)
        self.is_registering = True
        answer = self.cluster.register(broker, log_dirs=[directory(broker, self.directories[broker])])
        self.is_registering = False
        if answer["error_code"] is ErrorCode.duplicate_broker_registration:
            assert wipe
            assert any(before[key].isr == (broker,) for key in led), "refused though no ISR would be left empty"
            assert {key: self.now(key) for key in led} == before
            self.directories[broker] -= 1  # nobody has seen the new one
            return
        assert self.cluster.epochs[broker] > epoch
        for key in led:
            isr = self.now(key).isr
            assert self.now(key).leader != broker, "a broker that registers leads nothing"
            if wipe:
                assert broker not in isr, "a wiped replica counts as what it was"
            elif before[key].isr == (broker,) and isr != before[key].isr:
                assert self.now(key).leader != NO_LEADER, "the last member left, and nobody else leads"

    @rule(broker=brokers)
    def beat(self, broker: int) -> None:
        self.cluster.heartbeat(broker)

    @rule(broker=brokers, data=st.data())
    def beat_thin(self, broker: int, data: st.DataObject) -> None:
        hosted = sorted(key for key in self.partitions() if broker in self.now(key).replicas)
        keys = data.draw(st.lists(st.sampled_from(hosted), unique=True)) if hosted else []
        report(self.cluster, broker, *map(thin, keys))

    @rule(broker=brokers)
    def beat_as_a_ghost(self, broker: int) -> None:
        stale = self.cluster.epochs[broker] - 1
        answer = self.cluster.heartbeat(broker, broker_epoch=stale)
        assert answer["error_code"] is ErrorCode.stale_broker_epoch

    @rule(broker=brokers)
    def shut_down(self, broker: int) -> None:
        self.cluster.heartbeat(broker, want_shut_down=True)

    @rule(broker=brokers)
    def allocate(self, broker: int) -> None:
        values = {"broker_id": broker, "broker_epoch": self.cluster.epochs[broker]}
        answer = self.cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, values)
        assert answer["producer_id_start"] >= self.next_producer_id, "somebody has these ids already"
        self.next_producer_id = answer["producer_id_start"] + answer["producer_id_len"]

    @rule(data=st.data())
    def lose_a_leader_whose_successor_is_thin(self, data: st.DataObject) -> None:
        key = self.draw_partition(data)
        if key is None or self.now(key).leader == NO_LEADER:
            return
        before = self.now(key)
        successor = next((replica for replica in before.replicas if replica in before.isr[1:]), None)
        if successor in (None, before.leader):
            return
        report(self.cluster, successor, thin(key))
        self.cluster.heartbeat(before.leader, want_fence=True)

    @rule()
    def wait(self) -> None:
        live = [broker for broker in BROKERS if self.cluster.image.is_active(broker)]
        for broker in live:
            self.beat(broker)
        self.cluster.sleep(CONFIG.session_timeout_ms - 1)
        assert all(map(self.cluster.image.is_active, live)), "a live broker was fenced"

    @rule(silent=st.sets(brokers, max_size=3))
    def fall_silent(self, silent: set[int]) -> None:
        stopping = {broker for broker in BROKERS if self.cluster.image.brokers[broker].in_controlled_shutdown}
        alive = [broker for broker in BROKERS if broker not in silent | stopping]
        self.cluster.expire(*silent | stopping, alive=alive)
        assert not any(self.cluster.image.brokers[broker].fenced for broker in alive), "a live broker was fenced"

    @rule(broker=brokers, outcomes=st.lists(st.sampled_from(ProbeOutcome), max_size=3))
    def lose_connection(self, broker: int, outcomes: list[ProbeOutcome]) -> None:
        if self.cluster.core.connection_lost(broker, self.cluster.epochs[broker]) is Verdict.PROBE:
            self.probe(broker, outcomes)

    @rule(heard=st.sets(brokers), outcomes=st.lists(st.sampled_from(ProbeOutcome), max_size=3))
    def look_for_silent(self, heard: set[int], outcomes: list[ProbeOutcome]) -> None:
        for broker in heard:
            self.beat(broker)
        for broker in self.cluster.core.look_for_silent(self.cluster.now_ms) or ():
            self.probe(broker, outcomes)

    def probe(self, broker: int, outcomes: list[ProbeOutcome]) -> None:
        was_fenced, epoch = self.cluster.image.brokers[broker].fenced, self.cluster.image.brokers[broker].epoch
        live = {number for number in BROKERS if not self.cluster.image.brokers[number].fenced}
        for outcome in outcomes:
            _, result = self.cluster.core.probed(broker, epoch, outcome, self.cluster.now_ms)
            self.cluster.take(result)
        signs = {ProbeOutcome.REFUSED, ProbeOutcome.OTHER_INCARNATION}
        has_proof = any(signs.issuperset(pair) for pair in pairwise(outcomes))
        if self.cluster.image.brokers[broker].fenced and not was_fenced:
            assert has_proof, "a live broker was fenced"
            since_ms = self.cluster.now_ms - CONFIG.session_timeout_ms
            self.fast_fenced_at_ms[broker] = self.cluster.now_ms
            recent = {number for number, at_ms in self.fast_fenced_at_ms.items() if at_ms > since_ms}
            assert 2 * len(recent) < len(live | recent), "not only a minority was fenced"

    @rule(broken=st.lists(brokers, min_size=2, unique=True))
    def lose_connections(self, broken: list[int]) -> None:
        for broker in broken:
            self.lose_connection(broker, [ProbeOutcome.REFUSED] * 2)

    # Topics.

    @rule(name=topics, replicas=replica_lists, count=st.integers(1, 3))
    def create(self, name: str, replicas: list[int], count: int) -> None:
        if any(self.cluster.image.is_active(replica) for replica in replicas) and not self.cluster.image.topic(name):
            topic_id = self.cluster.create(name, *[replicas] * count, configs=TIERED)
            assert topic_id not in self.topic_ids, "an id came back"
            self.topic_ids.add(topic_id)

    @rule(name=topics)
    def delete(self, name: str) -> None:
        topic_id = self.cluster.image.topic_ids.get(name)
        values = {"topics": [{"name": name, "topic_id": None}], "timeout_ms": 1000}
        self.cluster.ask(ApiKey.DELETE_TOPICS, values)
        assert name not in self.cluster.image.topic_ids
        assert topic_id not in self.cluster.image.topics

    @rule(name=topics, unclean=st.booleans())
    def configure(self, name: str, unclean: bool) -> None:
        self.cluster.configure(2, name, unclean_leader_election_enable=str(unclean).lower())
        self.cluster.run_timers()

    @rule(data=st.data())
    def alter_isr(self, data: st.DataObject) -> None:
        key = self.draw_partition(data)
        if key is None or self.now(key).leader == NO_LEADER:
            return
        now = self.now(key)
        isr = data.draw(st.lists(st.sampled_from(now.replicas), min_size=1, unique=True))
        stale = data.draw(st.sampled_from([0, 0, 0, 1]))
        before = now
        answer = self.cluster.alter_isr(
            self.cluster.image.topics[key.topic_id].name,
            isr,
            partition=key.partition,
            partition_epoch=now.partition_epoch - stale,
        )
        if stale:
            assert answer["error_code"] is ErrorCode.invalid_update_version
            assert self.now(key) == before
        for broker in isr:
            if answer["error_code"] is ErrorCode.none and broker not in before.isr:
                assert self.cluster.image.is_active(broker), "a fenced broker joined the ISR"

    @rule(data=st.data(), replicas=replica_lists | st.none())
    def reassign(self, data: st.DataObject, replicas: list[int] | None) -> None:
        key = self.draw_partition(data)
        if key is not None:
            name = self.cluster.image.topics[key.topic_id].name
            self.cluster.reassign(name, replicas, partition=key.partition)

    @rule(data=st.data(), election=st.sampled_from([0, 0, 0, 1]))
    def elect(self, data: st.DataObject, election: int) -> None:
        key = self.draw_partition(data)
        if key is not None:
            self.is_operator_electing = election == 1
            self.cluster.elect(self.cluster.image.topics[key.topic_id].name, election, partition=key.partition)
            self.is_operator_electing = False

    @rule()
    def balance(self) -> None:
        self.cluster.now_ms += CONFIG.leader_imbalance_check_interval_ms
        self.cluster.run_timers()

    @rule()
    def fail_over(self) -> None:
        before = self.cluster.image
        self.cluster.core.state.image.delta = None
        pending = {key: self.now(key) for key in self.partitions() if self.now(key).is_reassigning}
        records = list(snapshot_records(before))
        self.cluster.failover()
        self.fast_fenced_at_ms = {
            broker: at_ms for broker, at_ms in self.fast_fenced_at_ms.items() if before.brokers[broker].fenced
        }  # of those that came back since, a new controller knows that they live, and no more
        again = MetadataImage()
        again.replay_all(records)
        assert same(again, before), "a snapshot does not say what the log says"
        for key, registration in pending.items():
            now = self.now(key)
            assert now.is_reassigning or set(now.replicas) == set(registration.replicas) - set(
                registration.removing_replicas
            )

    # Looking.

    def partitions(self) -> list[PartitionKey]:
        return [
            PartitionKey(topic_id, number)
            for topic_id, topic in self.cluster.image.topics.items()
            for number in topic.partitions
        ]

    def now(self, key: PartitionKey) -> PartitionRegistration:
        return self.cluster.image.registration(key)

    def draw_partition(self, data: st.DataObject) -> PartitionKey | None:
        known = sorted(self.partitions())
        return data.draw(st.sampled_from(known)) if known else None

    def check_warmth(self, key: PartitionKey, before: PartitionRegistration, now: PartitionRegistration) -> None:
        """Who was elected is not thinner than another that could lead, and nobody was deposed for one who may be."""
        state, warmth = self.cluster.core.state, {}
        for replica in now.isr:
            known = self.cluster.warmth(key, replica)
            is_new = replica not in before.isr and known is Warmth.FULL
            warmth[replica] = Warmth.UNKNOWN if is_new else known
        live = [replica for replica in now.isr if state.can_lead(now, replica)]
        assert warmth[now.leader] == min([warmth[now.leader], *map(warmth.__getitem__, live)]), (key, now, warmth)
        if before.leader in live:
            assert warmth[now.leader] is not Warmth.UNKNOWN, (key, before, now)

    def check_change(self, key: PartitionKey, before: PartitionRegistration, now: PartitionRegistration) -> None:
        """One record: from one registration to the next."""
        check_change(self.cluster.image.name(key), before, now)
        assert now.isr or not before.isr or self.is_registering, (key, before, now)
        if now.leader not in (NO_LEADER, before.leader) and now.leader in before.isr:
            self.check_warmth(key, before, now)
        for replica in set(now.isr) - set(before.isr):
            self.cluster.joined.setdefault(replica, set()).add(key)
        if now.leader not in (NO_LEADER, *before.isr) and now.leader_recovery_state == RECOVERING:
            topic = self.cluster.image.topics[key.topic_id].name
            allowed = self.is_operator_electing or self.cluster.core.state.is_unclean_election_enabled(topic)
            assert allowed, (key, before, now)


SETTINGS = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

SETTINGS_TO_CATCH = settings(
    SETTINGS, max_examples=1000, derandomize=True, database=None, phases=[Phase.generate], print_blob=False
)


@pytest.mark.slow
def test_the_controller_keeps_its_invariants() -> None:
    run_state_machine_as_test(ControllerModel, settings=SETTINGS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    with BUGS[bug](), pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(ControllerModel, settings=SETTINGS_TO_CATCH)
