"""Registered, alive, serving, leaving"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from tierfetch.broker.cluster.controller_channel import ControllerUnavailableError
from tierfetch.broker.cluster.lifecycle import BrokerIdentity, BrokerLifecycle, BrokerState, LifecycleTimes
from tierfetch.broker.cluster.view import EndPoint
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.brokers import ThinReplica
from tierfetch.tests.broker.fake_controllers import FakeControllers, answer, heartbeat
from tierfetch.tests.messages import plain

pytestmark = pytest.mark.virtual_time

REGISTER, BEAT = ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT
IDENTITY = BrokerIdentity(
    broker_id=3,
    cluster_id="c",
    end_points=(EndPoint("PLAINTEXT", "h", 9092),),
    rack=None,
    directory_ids=(UUID(int=500),),
    features=(("metadata.version", 25, 30),),
)


@pytest.fixture
def controllers() -> FakeControllers:
    fake = FakeControllers()
    fake.will(REGISTER, answer(broker_epoch=40))
    fake.will(BEAT, heartbeat(fenced=True))
    return fake


@pytest.fixture
async def life(controllers: FakeControllers) -> AsyncIterator[BrokerLifecycle]:
    times = LifecycleTimes(heartbeat_interval_s=0.01, registration_s=1.0, leaving_s=0.2)
    life = BrokerLifecycle(controllers, Random(1), lambda: 44, times)
    yield life
    await life.close()


async def test_C1_a_broker_registers_and_stays_fenced_until_it_serves(
    life: BrokerLifecycle, controllers: FakeControllers
) -> None:
    assert await life.register(IDENTITY, 17) == 40
    (body,) = controllers.bodies(REGISTER)
    assert (body["broker_id"], body["previous_broker_epoch"], body["log_dirs"]) == (3, 17, [UUID(int=500)])
    await controllers.until(lambda: len(controllers.bodies(BEAT)) >= 2)
    assert all(beat["want_fence"] for beat in controllers.bodies(BEAT))
    assert controllers.bodies(BEAT)[0]["current_metadata_offset"] == 44
    controllers.will(BEAT, heartbeat(fenced=True), heartbeat(fenced=False))
    await life.serve()
    assert not controllers.bodies(BEAT)[-1]["want_fence"]
    assert life.state is BrokerState.RUNNING


async def test_a_new_controller_hears_it_at_once(controllers: FakeControllers) -> None:
    times = LifecycleTimes(heartbeat_interval_s=60.0)
    life = BrokerLifecycle(controllers, Random(1), lambda: 44, times)
    try:
        await life.register(IDENTITY, -1)
        await controllers.until(lambda: len(controllers.bodies(BEAT)) == 1)
        life.controller_changed()
        await controllers.until(lambda: len(controllers.bodies(BEAT)) == 2)
        life.controller_changed()
        await controllers.until(lambda: len(controllers.bodies(BEAT)) == 3)
    finally:
        await life.close()


async def test_C1_a_lost_connection_is_followed_by_a_heartbeat_at_once(controllers: FakeControllers) -> None:
    controllers.will(BEAT, heartbeat(fenced=False))
    life = BrokerLifecycle(controllers, Random(1), lambda: 44, LifecycleTimes(heartbeat_interval_s=3600.0))
    try:
        await life.register(IDENTITY, -1)
        await life.serve()
        before = len(controllers.bodies(BEAT))
        life.connection_lost()
        await controllers.until(lambda: len(controllers.bodies(BEAT)) > before)
        assert len(controllers.bodies(BEAT)) == before + 1
        controllers.will(BEAT, ControllerUnavailableError("reset"))
        life.connection_lost()
        await controllers.until(lambda: len(controllers.bodies(BEAT)) > before + 1)
        for _ in range(10):
            life.connection_lost()  # nothing was answered since: the next attempt is the interval's
            await asyncio.sleep(1)
        assert len(controllers.bodies(BEAT)) == before + 2
    finally:
        await life.close()


async def test_C1_a_broker_knows_when_its_session_may_be_over(controllers: FakeControllers) -> None:
    controllers.will(BEAT, heartbeat(fenced=False))
    life = BrokerLifecycle(controllers, Random(1), lambda: 44, LifecycleTimes(heartbeat_interval_s=2.0))
    assert not life.is_heard
    try:
        await life.register(IDENTITY, -1)
        await life.serve()
        for _ in range(10):
            await asyncio.sleep(1)
            assert life.is_heard
        controllers.will(BEAT, ControllerUnavailableError("cut"))
        before = len(controllers.bodies(BEAT))
        await controllers.until(lambda: len(controllers.bodies(BEAT)) > before)
        assert life.is_heard
        await asyncio.sleep(3)
        assert not life.is_heard
        controllers.will(BEAT, heartbeat(fenced=True))
        await controllers.until(lambda: len(controllers.bodies(BEAT)) > before + 2)
        assert life.is_heard
    finally:
        await life.close()


async def test_C1_registration_waits_for_the_session_of_the_killed_incarnation(
    life: BrokerLifecycle, controllers: FakeControllers, caplog: pytest.LogCaptureFixture
) -> None:
    duplicate = answer(ErrorCode.duplicate_broker_registration)
    controllers.will(REGISTER, duplicate, duplicate, answer(broker_epoch=50))
    assert await life.register(IDENTITY, -1) == 50
    incarnations = {body["incarnation_id"] for body in controllers.bodies(REGISTER)}
    assert len(incarnations) == 1, "a retry is the same incarnation"
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "a broker with this node.id is alive" in warning


async def test_what_an_operator_has_to_mend_is_said_at_once(
    life: BrokerLifecycle, controllers: FakeControllers
) -> None:
    controllers.will(REGISTER, answer(ErrorCode.inconsistent_cluster_id))
    with pytest.raises(KafkaError, match="broker 3 belongs to cluster c, the controller to another"):
        await life.register(IDENTITY, -1)
    assert len(controllers.bodies(REGISTER)) == 1


async def test_C1_a_registration_that_was_lost_is_made_anew(
    life: BrokerLifecycle, controllers: FakeControllers
) -> None:
    controllers.will(REGISTER, answer(broker_epoch=40), answer(broker_epoch=90))
    controllers.will(BEAT, heartbeat(), heartbeat(ErrorCode.stale_broker_epoch), heartbeat())
    await life.register(IDENTITY, -1)
    await life.serve()
    await controllers.until(lambda: controllers.bodies(BEAT)[-1]["broker_epoch"] == 90)
    first, second = controllers.bodies(REGISTER)
    assert first["incarnation_id"] == second["incarnation_id"], "the same process"
    assert life.state is BrokerState.RUNNING


async def test_heartbeats_go_on_when_no_controller_answers(life: BrokerLifecycle, controllers: FakeControllers) -> None:
    controllers.will(BEAT, ControllerUnavailableError("gone"), ControllerUnavailableError("gone"), heartbeat())
    await life.register(IDENTITY, -1)
    await life.serve()
    assert len(controllers.bodies(BEAT)) >= 3


async def test_a_fault_of_ours_in_the_heartbeats_is_told(life: BrokerLifecycle, controllers: FakeControllers) -> None:
    await life.register(IDENTITY, -1)
    controllers.will(BEAT, AssertionError("planted"))
    assert "planted" in await asyncio.wait_for(life.failed, 5)


async def test_a_broker_without_any_usable_directory_had_better_end(life: BrokerLifecycle) -> None:
    offline: list[UUID] = []
    life.offline_directories = lambda: offline
    await life.register(replace(IDENTITY, directory_ids=(UUID(int=500), UUID(int=501))), -1)
    offline.append(UUID(int=501))
    life.report()
    assert not life.failed.done()
    offline.append(UUID(int=500))
    life.report()
    assert "none of its log directories" in life.failed.result()


async def test_C10_leaving_waits_until_the_controller_lets_it_go(
    life: BrokerLifecycle, controllers: FakeControllers
) -> None:
    controllers.will(BEAT, heartbeat())
    await life.register(IDENTITY, -1)
    await life.serve()
    controllers.will(BEAT, heartbeat(), heartbeat(), heartbeat(fenced=True, go=True))
    await life.leave()
    assert life.state is BrokerState.LEFT
    assert controllers.bodies(BEAT)[-1]["want_shut_down"]
    beats = len(controllers.bodies(BEAT))
    await asyncio.sleep(0.03)
    assert len(controllers.bodies(BEAT)) == beats, "none after it has left"
    await life.leave()


async def test_leaving_is_given_up_in_time(
    life: BrokerLifecycle, controllers: FakeControllers, caplog: pytest.LogCaptureFixture
) -> None:
    controllers.will(BEAT, heartbeat())
    await life.register(IDENTITY, -1)
    await life.leave()
    assert "not all leaderships moved within 0.2 s" in caplog.text


async def test_leaving_does_not_wait_for_heartbeats_that_have_ended(
    controllers: FakeControllers, caplog: pytest.LogCaptureFixture
) -> None:
    life = BrokerLifecycle(controllers, Random(1), lambda: 44, LifecycleTimes(leaving_s=3600.0))
    controllers.will(BEAT, heartbeat())
    await life.register(IDENTITY, -1)
    await life.serve()
    leaving = asyncio.create_task(life.leave())
    await controllers.until(lambda: bool(controllers.bodies(BEAT)[-1]["want_shut_down"]))
    controllers.will(BEAT, AssertionError("planted"))
    await asyncio.wait_for(leaving, 60)
    await asyncio.wait_for(life.leave(), 60)
    assert "stopping anyway" not in caplog.text
    await life.close()


async def test_F11_thin_replicas_are_told(life: BrokerLifecycle, controllers: FakeControllers) -> None:
    thin = ThinReplica(topic_id=UUID(int=5), partition_index=0, local_start_offset=100, local_bytes=4096, age_ms=12)
    life.thin_replicas = lambda: [thin]
    await life.register(IDENTITY, -1)
    await controllers.until(lambda: bool(controllers.bodies(BEAT)))
    assert controllers.bodies(BEAT)[-1]["thin_replicas"] == [plain(thin)]


async def test_F11_what_is_due_soon_is_told_in_one_heartbeat(controllers: FakeControllers) -> None:
    controllers.will(BEAT, heartbeat(fenced=False))
    life = BrokerLifecycle(controllers, Random(1), lambda: 44, LifecycleTimes(heartbeat_interval_s=3600.0))
    await life.register(IDENTITY, -1)
    await life.serve()
    before = len(controllers.bodies(BEAT))
    for _ in range(100):
        life.report_soon()
    await controllers.until(lambda: len(controllers.bodies(BEAT)) > before)
    assert len(controllers.bodies(BEAT)) == before + 1
    life.report_soon()
    await controllers.until(lambda: len(controllers.bodies(BEAT)) > before + 1)
    await life.close()
