"""Controllers on a real quorum, in the simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.controller.core.config import SUPPORTED_FEATURES
from tierfetch.controller.core.state import ControllerResult
from tierfetch.controller.node import _Job
from tierfetch.controller.records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    decode_record,
    encode_record,
)
from tierfetch.controller.service import ControllerService
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.brokers import AllocateProducerIdsRequest, BrokerHeartbeatRequest
from tierfetch.protocol.net.client import Address
from tierfetch.quorum.core.errors import BufferFullError, NotLeaderError, QuorumFailedError
from tierfetch.sim.scenarios.controllers import CONTROLLER_PORT, controller_host

from .harness import same
from .nodes import NODES, Cluster, simulate


async def agree(cluster: Cluster) -> None:
    """All running controllers come to the same image."""
    running = list(cluster.running())

    def do() -> bool:
        first = cluster.image(running[0])
        return all(same(cluster.image(node_id), first) for node_id in running[1:])

    await cluster.until(do)


@pytest.mark.slow
def test_C1_brokers_register_with_a_quorum_and_all_controllers_know_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create("t", [1, 2, 3], [2, 3, 1])
        await agree(cluster)
        image = cluster.image(1)
        assert sorted(image.brokers) == [1, 2, 3]
        assert [image.topic("t").partitions[number].leader for number in (0, 1)] == [1, 2]
        assert image.metadata_version == 30
        await cluster.until(lambda: sorted(cluster.image(1).controllers) == list(NODES))
        features = {item.name for item in cluster.image(1).controllers[3].features}
        assert features == set(SUPPORTED_FEATURES)

    assert simulate(scenario) == simulate(scenario)


def test_a_heartbeat_waits_only_where_something_is_decided() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1)
        _, service = await cluster.active()
        controller = service.controller
        beat = BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=controller.core.state.image.brokers[1].epoch,
            current_metadata_offset=1 << 40,
            want_fence=False,
            want_shut_down=False,
        )
        await cluster.until(lambda: controller._is_idle)
        with pytest.raises(StopIteration) as answered:
            controller.heartbeat(beat).send(None)
        assert answered.value.value.is_fenced is False
        controller._put(_Job(lambda moment: None))
        waiting = controller.heartbeat(beat)
        assert isinstance(waiting.send(None), asyncio.Future)
        waiting.close()

    simulate(scenario)


@pytest.mark.parametrize("kind", ["process", "machine"])
def test_C5_the_next_controller_goes_on_where_the_first_died(kind: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create("t", [1, 2])
        node_id, _ = await cluster.active()
        values = {
            "timeout_ms": 1000,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [3, 2]}]}],
        }
        answer = await cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, values)
        assert answer.responses[0].partitions[0].error_code is ErrorCode.none
        cluster.controllers[node_id].crash(kind)
        other, _ = await cluster.active()
        assert other != node_id
        assert cluster.image(other).topic("t").partitions[0].adding_replicas == (3,)
        await cluster.create("u", [2, 3])
        await cluster.start_controller(node_id)
        await agree(cluster)
        assert cluster.image(node_id).topic("u") is not None
        await asyncio.sleep(20)
        assert not any(broker.fenced for broker in cluster.image(other).brokers.values()), "brokers found the next one"

    simulate(scenario)


def test_a_dead_process_is_fenced_within_half_a_second() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create("t", [1, 2, 3])
        await asyncio.sleep(10)
        node_id, _ = await cluster.active()
        cluster.brokers[1].crash("process")
        took_s = await cluster.until(lambda: cluster.image(node_id).topic("t").partitions[0].leader == 2)
        assert took_s < 0.5
        await cluster.start_broker(1)
        assert await cluster.until(lambda: not cluster.brokers[1].node.is_fenced) < 1, "no session to wait for"

    simulate(scenario)


def test_a_broker_that_dies_with_the_controller_is_fenced_by_the_next_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create("t", [1, 2, 3])
        node_id, _ = await cluster.active()
        cluster.controllers[node_id].crash("process")
        cluster.brokers[1].crash("process")
        other, _ = await cluster.active()
        took_s = await cluster.until(lambda: cluster.image(other).topic("t").partitions[0].leader == 2)
        assert took_s < 1.5
        await asyncio.sleep(10)
        assert not any(cluster.image(other).brokers[broker].fenced for broker in (2, 3))

    simulate(scenario)


def test_a_controller_that_is_new_and_hears_one_of_three_fences_nobody_for_a_session() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        node_id, _ = await cluster.active()
        others = {controller_host(other) for other in NODES if other != node_id}
        cluster.world.network.partition({"broker-2"}, others)
        cluster.controllers[node_id].crash("process")
        cluster.brokers[1].crash("process")
        other, _ = await cluster.active()
        assert await cluster.until(lambda: cluster.image(other).brokers[1].fenced) > 8

    simulate(scenario)


def test_a_silent_network_takes_the_session_timeout() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create("t", [1, 2, 3])
        await asyncio.sleep(10)
        node_id, _ = await cluster.active()
        for controller in NODES:
            cluster.world.network.partition({"broker-1"}, {controller_host(controller)})
        took_s = await cluster.until(lambda: cluster.image(node_id).brokers[1].fenced)
        assert 8 < took_s < 10

    simulate(scenario)


def test_switched_off_the_session_decides() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await asyncio.sleep(10)
        node_id, _ = await cluster.active()
        cluster.brokers[1].crash("process")
        assert await cluster.until(lambda: cluster.image(node_id).brokers[1].fenced) > 8

    simulate(scenario, fast_failover_enable="false")


def test_a_standby_sends_askers_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1)
        active, _ = await cluster.active()
        standby = next(node_id for node_id in NODES if node_id != active)
        asked = {"broker_id": 1, "broker_epoch": 1}
        address = Address(controller_host(standby), CONTROLLER_PORT)
        answer = await cluster.world.host("operator").run(
            cluster.client.send(address, AllocateProducerIdsRequest(**asked), timeout_s=3)
        )
        assert answer.error_code is ErrorCode.not_controller

    simulate(scenario)


def test_C9_a_controller_cut_off_from_its_quorum_decides_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        active, service = await cluster.active()
        others = {controller_host(node_id) for node_id in NODES if node_id != active}
        cluster.world.network.partition({controller_host(active)}, others)
        before = len(cluster.image(active).topics)
        creating = asyncio.create_task(cluster.create("t", [1, 2]))
        await cluster.until(lambda: not service.controller.is_active)
        assert len(cluster.image(active).topics) == before
        await creating
        cluster.world.network.heal()
        await agree(cluster)
        assert cluster.image(active).topic("t") is not None

    simulate(scenario)


def test_a_snapshot_is_cut_and_loaded_by_a_controller_that_was_away() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create("t", *[[1, 2, 3]] * 40)
        await agree(cluster)
        node_id, service = await cluster.active()
        await cluster.until(lambda: service.node.log.snapshots.latest is not None)
        cluster.controllers[node_id].crash("process")
        await cluster.active()
        await cluster.start_controller(node_id)
        await agree(cluster)
        assert len(cluster.image(node_id).topic("t").partitions) == 40

    simulate(scenario, metadata_log_max_record_bytes_between_snapshots="2000")


def test_an_append_that_is_refused_is_answered_not_controller() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1)
        _, service = await cluster.active()

        async def refuse(*_: object, **__: object) -> int:
            raise NotLeaderError("by the test")

        service.node.append = refuse
        assert (await allocate(cluster, service)).error_code is ErrorCode.not_controller

    simulate(scenario)


async def allocate(cluster: Cluster, service: ControllerService) -> Any:
    """A block of producer ids, asked of this controller: a decision that writes."""
    values = {"broker_id": 1, "broker_epoch": service.controller.core.state.image.brokers[1].epoch}
    address = Address(controller_host(service.node.node_id), CONTROLLER_PORT)
    asking = cluster.client.send(address, AllocateProducerIdsRequest(**values), timeout_s=3)
    return await cluster.world.host("operator").run(asking)


def test_a_fault_of_ours_leaves_nobody_waiting() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1)
        node_id, service = await cluster.active()

        async def fail(*_: object, **__: object) -> int:
            raise ZeroDivisionError("by the test")

        service.node.append = fail
        assert (await allocate(cluster, service)).error_code is ErrorCode.not_controller
        assert service.controller.failed.done()
        assert not service.controller.is_active
        assert (await allocate(cluster, service)).error_code is ErrorCode.not_controller
        _, next_one = await cluster.active()
        assert next_one is not service, "another decides before the process of the first has ended"
        cluster.controllers[node_id].crash("process")

    simulate(scenario)


def test_a_controller_whose_quorum_replica_has_failed_decides_no_more() -> None:
    """What is due would be due again at once, for ever, and nothing else would run."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        _, service = await cluster.active()

        async def fail(*_: object, **__: object) -> int:
            raise QuorumFailedError("by the test")

        service.node.append = fail
        assert (await allocate(cluster, service)).error_code is ErrorCode.not_controller
        assert not service.controller.is_active

    simulate(scenario)


def test_what_does_not_fit_into_the_quorums_buffer_waits_and_no_transaction_stays_open() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        _, service = await cluster.active()
        controller, image = service.controller, service.controller.core.state.image
        records = [ConfigRecord(resource_type=4, resource_name="", name=f"key-{n}", value="v") for n in range(10)]

        def in_pieces(_: ControllerResult) -> Iterator[list[Any]]:
            yield [BeginTransactionRecord()]
            yield from ([record] for record in records)
            yield [EndTransactionRecord()]

        refusals = 0
        append = service.node.append

        async def narrow(epoch: int, values: Sequence[bytes], **others: Any) -> int:
            nonlocal refusals
            if service.node.status.next_offset > service.node.status.high_watermark:
                refusals += 1
                raise BufferFullError("by the test")
            return await append(epoch, values, **others)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tierfetch.controller.node.batches", in_pieces)
            patch.setattr(service.node, "append", narrow)
            answer = asyncio.get_running_loop().create_future()
            controller._put(_Job(lambda _: ControllerResult(records, "done"), answer))
            assert await answer == "done"
        assert refusals > 0
        assert not image.is_in_transaction
        assert len(image.config(4, "")) == 10

    simulate(scenario)


def test_C5_the_first_records_of_a_controller_are_not_part_of_what_its_predecessor_left_open() -> None:
    """The worker of a standby waits for a job, whatever the image says meanwhile: `_begin` comes before the timers."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1)
        node_id, service = await cluster.active()
        await service.node.append(service.controller._epoch, [encode_record(BeginTransactionRecord())])
        standbys = [other.controller for other in cluster.running().values() if other is not service]
        await cluster.until(lambda: all(each.core.state.image.is_in_transaction for each in standbys))
        for each in standbys:
            each.registration = replace(each.registration, incarnation_id=UUID(int=7))
        applied = [each._applied_end for each in standbys]
        cluster.controllers[node_id].crash("process")
        now_active, new = await cluster.active()
        controller = new.controller
        await cluster.until(lambda: controller._applied_end > max(applied) + 2)
        image = controller.core.state.image
        assert not image.is_in_transaction
        assert image.controllers[now_active] == controller.registration

    simulate(scenario)


def test_C1_a_brokers_epoch_is_the_offset_of_its_record_whatever_comes_between() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1)
        _, service = await cluster.active()
        node, append = service.node, service.node.append
        offsets: dict[int, int] = {}

        async def late(epoch: int, values: Sequence[bytes], **others: Any) -> int:
            record = decode_record(values[0]).record
            if isinstance(record, RegisterBrokerRecord) and not offsets:
                offsets[0] = await append(epoch, [encode_record(NoOpRecord())])
            last = await append(epoch, values, **others)
            if isinstance(record, RegisterBrokerRecord):
                offsets[record.broker_id] = last - len(values) + 1
            return last

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node, "append", late)
            await cluster.start_broker(2)
            await cluster.until(lambda: not cluster.brokers[2].node.is_fenced)
        assert cluster.brokers[2].node.epoch == offsets[2] > offsets[0]

    simulate(scenario)


@pytest.mark.slow
def test_Q15_kraft_version_is_raised_by_update_features() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create("t", [1, 2, 3])
        _, service = await cluster.active()
        assert service.node.status.voters.kraft_version == 0
        update = {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": 1}
        values = {"timeout_ms": 1000, "feature_updates": [update], "validate_only": False}
        answer = await cluster.ask(ApiKey.UPDATE_FEATURES, values)
        assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
        everybody = [item.node for item in cluster.running().values()]
        await cluster.until(lambda: all(node.status.voters.kraft_version == 1 for node in everybody))
        keys = {node.config.key for node in everybody}
        assert {voter.key for voter in service.node.status.voters.voters} == keys
        assert all(key.directory_id.int for key in keys)
        node_id, _ = await cluster.active()
        cluster.controllers[node_id].crash("machine")
        await cluster.create("u", [2, 3])
        await cluster.start_controller(node_id)
        await agree(cluster)
        assert cluster.controllers[node_id].node.node.status.voters.kraft_version == 1
        again = {**values, "feature_updates": [{**update, "max_version_level": 0, "upgrade_type": 3}]}
        refused = await cluster.ask(ApiKey.UPDATE_FEATURES, again)
        assert refused.error_code is ErrorCode.invalid_update_version

    simulate(scenario)


def test_C1_a_controller_that_was_stopped_for_long_fences_no_live_broker() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        node_id, _ = await cluster.active()
        for other in NODES:
            if other != node_id:
                cluster.controllers[other].pause()
        cluster.controllers[node_id].pause()
        await asyncio.sleep(60)
        for host in cluster.controllers.values():
            host.resume()
        await cluster.active()
        await asyncio.sleep(15)
        fenced = [record for record in cluster.image(node_id).brokers.values() if record.fenced]
        assert not fenced

    simulate(scenario)


def test_what_a_broker_asks_again_and_again_is_refused_in_the_log_once() -> None:
    told: list[str] = []

    async def scenario(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        another = {**cluster.brokers[1].node.registration(), "incarnation_id": UUID(int=7)}
        for _ in range(20):
            answer = await cluster.ask(ApiKey.BROKER_REGISTRATION, another)
            assert answer.error_code is ErrorCode.duplicate_broker_registration

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tierfetch.controller.node._log.isEnabledFor", lambda _: True)
        patch.setattr("tierfetch.controller.node._log.log", lambda _, text, *values, **__: told.append(text % values))
        simulate(scenario)
    assert len([line for line in told if "is registered and alive" in line]) == 1, told
