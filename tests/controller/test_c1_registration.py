"""C1: registration, failure detection, re-registration, fencing."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.controller.core.config import FeatureRange
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode

from .harness import CONFIG, JAVA_FEATURES, Harness, directory


@pytest.fixture
def cluster() -> Harness:
    harness = Harness()
    harness.start(1, 2, 3)
    return harness


def test_C1_a_broker_is_fenced_until_it_has_replayed_its_registration() -> None:
    harness = Harness()
    epoch = harness.register(1)["broker_epoch"]
    assert epoch == 1, "the offset of the record"
    answer = harness.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (answer["is_caught_up"], answer["is_fenced"]) == (False, True)
    assert harness.heartbeat(1, current_metadata_offset=epoch, want_fence=True)["is_fenced"]
    answer = harness.heartbeat(1, current_metadata_offset=epoch)
    assert (answer["is_caught_up"], answer["is_fenced"]) == (True, False)


def test_C1_silence_for_a_session_timeout_fences_and_a_heartbeat_brings_back(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.expire(1, alive=[2, 3])
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (2, (2, 3), 1, 1)
    assert cluster.heartbeat(1)["is_fenced"] is False
    assert cluster.partition("t").isr == (2, 3), "the leader decides who is in sync"


def test_C1_a_new_controller_gives_every_broker_a_fresh_session(cluster: Harness) -> None:
    cluster.now_ms += CONFIG.session_timeout_ms - 1
    cluster.failover()
    cluster.sleep(CONFIG.session_timeout_ms - 1)
    assert not any(broker.fenced for broker in cluster.image.brokers.values())
    cluster.sleep(1)
    assert all(broker.fenced for broker in cluster.image.brokers.values())


def test_C1_another_incarnation_waits_for_the_session_of_the_first(cluster: Harness) -> None:
    epoch = cluster.epochs[1]
    assert cluster.register(1)["error_code"] is ErrorCode.duplicate_broker_registration
    cluster.expire(1, alive=[2, 3])
    assert cluster.register(1)["error_code"] is ErrorCode.none
    assert cluster.heartbeat(1, broker_epoch=epoch)["error_code"] is ErrorCode.stale_broker_epoch


def test_C1_a_retried_registration_changes_nothing_but_the_epoch(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    before = cluster.partition("t")
    incarnation = cluster.image.brokers[1].incarnation_id
    assert cluster.register(1, incarnation_id=incarnation)["error_code"] is ErrorCode.none
    assert cluster.image.brokers[1].is_active
    assert cluster.partition("t") == before


def test_C1_a_new_directory_leaves_every_isr_in_the_batch_of_the_registration(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3], [2, 1, 3])
    cluster.create("u", [1])
    cluster.expire(1, alive=[2, 3])
    assert cluster.partition("u").isr == (1,), "the last member stays while its directory may come back"
    first = len(cluster.log)
    epoch = cluster.register(1, log_dirs=[directory(1, 9)])["broker_epoch"]
    assert epoch == first
    assert len(cluster.log) == first + 2, "the registration and the partition, at once"
    last = cluster.partition("u")
    assert (last.leader, last.isr) == (-1, ())
    cluster.heartbeat(1)
    assert cluster.partition("u").leader == -1, "it waits for an operator"
    assert cluster.elect("u", 1)["error_code"] is ErrorCode.none
    elected = cluster.partition("u")
    assert (elected.leader, elected.isr, elected.leader_recovery_state) == (1, (1,), 1)
    assert elected.directories == (directory(1, 9),)


def test_C1_a_wiped_leader_leaves_even_before_its_session_is_over(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.register(1, log_dirs=[directory(1, 9)])["error_code"] is ErrorCode.none
    assert cluster.partition("t").isr == (2, 3)


def test_C1_an_unclean_stop_leaves_every_isr_but_as_the_last_member(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.create("u", [1])
    cluster.expire(1, alive=[2, 3])
    before = cluster.partition("u")
    cluster.register(1)
    assert cluster.partition("t").isr == (2,)
    assert cluster.partition("u").isr == (1,)
    cluster.heartbeat(1)
    after = cluster.partition("u")
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_epoch > before.leader_epoch, "its log may end earlier than what followers have"


def test_C1_of_several_directories_only_what_was_in_the_lost_one_is_gone() -> None:
    harness = Harness()
    harness.start(1, log_dirs=[directory(1, 0), directory(1, 1)])
    topic_id = harness.create("t", [1], [1], [1])
    for number in (0, 1):
        response = harness.ask(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            {
                "broker_id": 1,
                "broker_epoch": harness.epochs[1],
                "directories": [
                    {
                        "id_": directory(1, number),
                        "topics": [{"topic_id": topic_id, "partitions": [{"partition_index": number}]}],
                    }
                ],
            },
        )
        assert response["error_code"] is ErrorCode.none
    harness.expire(1)
    harness.register(1, log_dirs=[directory(1, 0), directory(1, 7)])
    assert [harness.partition("t", number).isr for number in range(3)] == [(1,), (), ()]


def test_C1_an_added_directory_takes_nothing_away(cluster: Harness) -> None:
    cluster.create("t", [1])
    cluster.expire(1, alive=[2, 3])
    cluster.register(1, log_dirs=[directory(1), directory(1, 1)])
    assert cluster.partition("t").isr == (1,)


def test_C1_a_directory_that_fails_while_running_moves_leadership(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.create("u", [1])
    cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    assert (cluster.partition("u").leader, cluster.partition("u").isr) == (-1, (1,))


def test_C1_a_directory_that_fails_before_its_broker_may_lead_gets_no_leader() -> None:
    harness = Harness()
    harness.start(1, log_dirs=[directory(1, 0)])
    harness.create("t", [1])
    harness.expire(1)
    harness.register(1, log_dirs=[directory(1, 0), directory(1, 1)])
    assert harness.heartbeat(1, offline_log_dirs=[directory(1, 0)])["is_fenced"]
    assert not harness.heartbeat(1, offline_log_dirs=[directory(1, 0)])["is_fenced"]
    assert (harness.partition("t").leader, harness.partition("t").isr) == (-1, (1,))


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        ({"log_dirs": []}, ErrorCode.invalid_registration),
        ({"log_dirs": [UUID(int=7)]}, ErrorCode.invalid_registration),
        ({"log_dirs": [directory(9), directory(9)]}, ErrorCode.invalid_registration),
        ({"log_dirs": [directory(1)]}, ErrorCode.invalid_registration),
        ({"listeners": []}, ErrorCode.invalid_registration),
        ({"incarnation_id": None}, ErrorCode.invalid_registration),
        ({"broker_id": -1}, ErrorCode.invalid_registration),
        ({"features": {}}, ErrorCode.invalid_registration),
        ({"features": {"metadata.version": FeatureRange(7, 29)}}, ErrorCode.unsupported_version),
        ({"version": 1}, ErrorCode.invalid_registration),
    ],
)
def test_C1_registrations_that_are_refused(cluster: Harness, values: dict, code: ErrorCode) -> None:
    response = cluster.register(**{"broker_id": 4, **values})
    assert (response["error_code"], response["broker_epoch"]) == (code, -1)
    assert 4 not in cluster.image.brokers


@pytest.mark.parametrize("version", [2, 3, 4])
def test_C1_every_version_with_directories_registers(version: int) -> None:
    assert Harness().register(1, version=version, features=JAVA_FEATURES)["error_code"] is ErrorCode.none


def test_C1_controlled_shutdown_moves_leaders_first(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.create("u", [2, 1])
    answer = cluster.heartbeat(1, want_shut_down=True)
    assert (answer["should_shut_down"], answer["is_fenced"]) == (False, False)
    assert [cluster.partition(name).leader for name in "tu"] == [2, 2]
    assert cluster.partition("t").isr == (2, 3)
    assert not cluster.heartbeat(1, want_shut_down=True)["should_shut_down"], "others have not replayed it"
    cluster.beat(2, 3)
    answer = cluster.heartbeat(1, want_shut_down=True)
    assert (answer["should_shut_down"], answer["is_fenced"]) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_C1_a_newcomer_empties_no_isr_while_the_broker_in_its_place_shuts_down(cluster: Harness) -> None:
    cluster.create("only", [1])
    assert not cluster.heartbeat(1, want_shut_down=True)["should_shut_down"], "others have not replayed it"
    assert cluster.image.brokers[1].in_controlled_shutdown
    newcomer = cluster.register(1, log_dirs=[directory(1, 7)])
    assert newcomer["error_code"] is ErrorCode.duplicate_broker_registration
    assert cluster.partition("only").isr == (1,)
    cluster.expire(1, alive=[2, 3])
    assert cluster.register(1, log_dirs=[directory(1, 7)])["error_code"] is ErrorCode.none
    assert cluster.partition("only").isr == ()


def test_C1_a_broker_that_shuts_down_may_be_replaced_at_once_with_its_directories(cluster: Harness) -> None:
    cluster.create("only", [1])
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.register(1)["error_code"] is ErrorCode.none
    assert cluster.partition("only").isr == (1,)


def test_C1_a_broker_goes_when_the_others_have_replayed_all_of_its_leaving(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    first = len(cluster.log)
    assert not cluster.heartbeat(1, want_shut_down=True)["should_shut_down"]
    last = len(cluster.log) - 1
    assert last > first
    for seen, may_go in [(first - 1, False), (first, False), (last - 1, False), (last, True)]:
        for other in (2, 3):
            cluster.heartbeat(other, current_metadata_offset=seen)
        assert cluster.heartbeat(1, want_shut_down=True)["should_shut_down"] is may_go, (seen, first, last)


def test_C1_a_broker_without_leaderships_may_go_at_once(cluster: Harness) -> None:
    assert cluster.heartbeat(1, want_shut_down=True)["should_shut_down"]
    cluster.register(2, incarnation_id=cluster.image.brokers[2].incarnation_id)
    assert cluster.heartbeat(1, want_shut_down=True)["should_shut_down"], "fenced brokers too"


def test_C1_heartbeats_of_nobody_are_refused(cluster: Harness) -> None:
    cluster.epochs[9] = 5
    assert cluster.heartbeat(9)["error_code"] is ErrorCode.stale_broker_epoch
    assert cluster.heartbeat(1, broker_epoch=10_000)["error_code"] is ErrorCode.stale_broker_epoch


def test_C1_cordoned_directories_are_written_once(cluster: Harness) -> None:
    before = len(cluster.log)
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    assert len(cluster.log) == before + 1
    assert not cluster.image.brokers[1].is_placeable


def test_C1_unregister_forgets_a_broker_that_nothing_depends_on(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    assert cluster.ask(ApiKey.UNREGISTER_BROKER, {"broker_id": 7})["error_code"] is ErrorCode.broker_id_not_registered
    assert cluster.ask(ApiKey.UNREGISTER_BROKER, {"broker_id": 1})["error_code"] is ErrorCode.none
    assert 1 not in cluster.image.brokers
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    refused = cluster.ask(ApiKey.UNREGISTER_BROKER, {"broker_id": 2})
    assert refused["error_code"] is ErrorCode.policy_violation
    assert "t-0" in refused["error_message"]
    assert "reassign" in refused["error_message"]


def test_C1_a_broker_that_comes_back_after_it_was_unregistered_is_not_what_it_was(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.expire(2, alive=[1, 3])
    cluster.expire(1, alive=[3])
    assert cluster.partition("t").isr == (1,)
    cluster.register(1, log_dirs=[directory(1, 5)])
    assert cluster.partition("t").isr == ()


def test_C1_sessions_are_measured_without_a_wall_clock() -> None:
    harness = Harness(replace(CONFIG, session_timeout_ms=500))
    harness.start(1)
    assert harness.core.next_deadline_ms() is not None
    harness.now_ms += 499
    assert harness.core.fire(harness.moment) is not None, "the sweep after the start"
    assert harness.core.fire(harness.moment) is None
    harness.now_ms += 1
    assert harness.core.fire(harness.moment) is not None
    assert harness.core.state.image.brokers[1].fenced is False, "until the records are replayed"


def test_C1_a_controller_that_stood_still_fences_nobody_for_its_own_silence(cluster: Harness) -> None:
    cluster.now_ms += 10 * CONFIG.session_timeout_ms
    cluster.core.on_pause(cluster.now_ms)
    cluster.sleep(CONFIG.session_timeout_ms - 1)
    assert not any(broker.fenced for broker in cluster.image.brokers.values())
    cluster.sleep(1)
    assert all(broker.fenced for broker in cluster.image.brokers.values())
