"""F1: the switch of the bootstrap policy; F11: thin replicas come last; F12: feature levels guard what is new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.controller.core.config import (
    SUPPORTED_FEATURES,
    FeatureRange,
    WarmingPolicy,
    registered_features,
    served_features,
)
from tierfetch.controller.core.features import offered_features
from tierfetch.controller.core.state import KRaftUpgrade
from tierfetch.controller.core.thin import Warmth
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.brokers import ThinReplica
from tierfetch.tests.messages import plain, request_of

from .harness import CONFIG, JAVA_FEATURES, Harness

SWITCH = "follower.fetch.last.tiered.offset.enable"
MIB = 1024 * 1024
TIERED = {"remote.storage.enable": "true"}


def report(cluster: Harness, broker_id: int, *thin: ThinReplica) -> None:
    cluster.heartbeat(broker_id, thin_replicas=plain(thin))


def thin_item(cluster: Harness, *, local_bytes: int = 1, age_ms: int = 0) -> ThinReplica:
    return ThinReplica(
        topic_id=cluster.image.topic_ids["t"],
        partition_index=0,
        local_start_offset=1000,
        local_bytes=local_bytes,
        age_ms=age_ms,
    )


@pytest.fixture
def cluster() -> Harness:
    harness = Harness(replace(CONFIG, warming=WarmingPolicy(bytes_min=100 * MIB, time_ms=60_000)))
    harness.start(1, 2, 3)
    harness.create("t", [1, 2, 3], configs=TIERED)
    return harness


def test_F11_a_full_replica_leads_before_a_thin_one(cluster: Harness) -> None:
    report(cluster, 2, thin_item(cluster))
    cluster.expire(1, alive=[3])
    assert cluster.partition("t").leader == 3
    assert cluster.partition("t").isr[-1] == 3


def test_F11_a_thin_replica_leads_where_no_full_one_is_live(cluster: Harness) -> None:
    report(cluster, 2, thin_item(cluster))
    report(cluster, 3, thin_item(cluster))
    cluster.now_ms += CONFIG.session_timeout_ms - 1
    report(cluster, 2, thin_item(cluster))
    report(cluster, 3, thin_item(cluster))
    cluster.sleep(1)
    assert cluster.partition("t").leader == 2


@pytest.mark.parametrize("warm", [{"local_bytes": 100 * MIB}, {"age_ms": 60_000}])
def test_F11_a_replica_that_has_warmed_by_bytes_or_time_counts_as_full(cluster: Harness, warm: dict[str, int]) -> None:
    report(cluster, 2, thin_item(cluster, **warm))
    cluster.now_ms += CONFIG.session_timeout_ms - 1
    report(cluster, 2, thin_item(cluster, **warm))
    cluster.beat(3)
    cluster.sleep(1)
    assert cluster.partition("t").leader == 2


def test_F11_absent_from_the_next_heartbeat_means_full(cluster: Harness) -> None:
    report(cluster, 2, thin_item(cluster))
    assert cluster.core.state.warmth(cluster.key("t"), 2) is Warmth.THIN
    cluster.heartbeat(2)
    assert cluster.core.state.warmth(cluster.key("t"), 2) is Warmth.FULL


def test_F11_a_thin_preferred_replica_does_not_take_the_lead_from_a_full_one(cluster: Harness) -> None:
    cluster.expire(1, alive=[2, 3])
    cluster.heartbeat(1)
    cluster.alter_isr("t", [1, 2, 3])
    report(cluster, 1, thin_item(cluster))
    cluster.now_ms += CONFIG.leader_imbalance_check_interval_ms
    report(cluster, 1, thin_item(cluster))
    cluster.beat(2, 3)
    cluster.run_timers()
    assert cluster.partition("t").leader == 2
    refused = cluster.elect("t", 0)
    assert refused["error_code"] is ErrorCode.preferred_leader_not_available
    assert "warm" in refused["error_message"]
    report(cluster, 1)
    assert cluster.elect("t", 0)["error_code"] is ErrorCode.none
    assert cluster.partition("t").leader == 1


def test_F11_a_leader_is_not_deposed_for_being_thin(cluster: Harness) -> None:
    report(cluster, 1, thin_item(cluster))
    cluster.alter_isr("t", [1, 2])
    assert cluster.partition("t").leader == 1


def test_F11_a_new_incarnation_has_reported_nothing(cluster: Harness) -> None:
    report(cluster, 2, thin_item(cluster))
    cluster.expire(2, alive=[1, 3])
    cluster.register(2)
    assert cluster.core.state.warmth(cluster.key("t"), 2) is Warmth.UNKNOWN


def take_out_and_in(cluster: Harness, *, offset: int = 0, **values: Any) -> None:
    """Broker 1, the preferred leader, falls silent, comes back and joins the ISR; 2 leads. Then its heartbeat comes:
    of the metadata before the join where `offset` is negative.
    """
    cluster.expire(1, alive=[2, 3])
    cluster.heartbeat(1)
    cluster.alter_isr("t", [1, 2, 3])
    cluster.heartbeat(1, current_metadata_offset=len(cluster.log) - 1 + offset, **values)


def test_F11_who_joined_the_isr_is_unknown_until_a_heartbeat_covers_the_join(cluster: Harness) -> None:
    take_out_and_in(cluster, offset=-1)
    assert cluster.core.state.warmth(cluster.key("t"), 1) is Warmth.UNKNOWN
    refused = cluster.elect("t", 0)
    assert refused["error_code"] is ErrorCode.preferred_leader_not_available
    assert "has not reported yet" in refused["error_message"]
    cluster.heartbeat(1, current_metadata_offset=len(cluster.log) - 1)
    assert cluster.elect("t", 0)["error_code"] is ErrorCode.none
    assert cluster.partition("t").leader == 1


def test_F11_an_unknown_replica_leads_before_a_thin_one_and_after_a_full_one(cluster: Harness) -> None:
    take_out_and_in(cluster, offset=-1)
    report(cluster, 3, thin_item(cluster))
    cluster.heartbeat(2, want_fence=True)
    assert cluster.partition("t").leader == 1, "3 is thin, 1 may be"
    cluster.heartbeat(2)
    cluster.alter_isr("t", [1, 2, 3])
    cluster.beat(1, 2)
    cluster.failover()
    cluster.heartbeat(3)
    cluster.heartbeat(1, want_fence=True, current_metadata_offset=0)
    assert cluster.partition("t").leader == 3, "3 has reported that it is full, 2 has not reported"


def test_F11_where_nothing_is_known_somebody_is_elected_at_once(cluster: Harness) -> None:
    cluster.failover()
    assert {cluster.core.state.warmth(cluster.key("t"), broker) for broker in (1, 2, 3)} == {Warmth.UNKNOWN}
    cluster.heartbeat(1, want_fence=True)
    assert cluster.partition("t").leader == 2


def test_F11_a_report_of_metadata_from_before_a_failover_or_a_registration_counts_for_nothing(
    cluster: Harness,
) -> None:
    warmth, key = cluster.core.state.warmth, cluster.key("t")
    cluster.heartbeat(2, current_metadata_offset=cluster.epochs[2] - 1)
    assert warmth(key, 2) is Warmth.FULL, "the report before it counts"
    cluster.failover()
    cluster.heartbeat(2, current_metadata_offset=len(cluster.log) - 2)
    assert cluster.core.state.warmth(key, 2) is Warmth.UNKNOWN
    cluster.heartbeat(2, current_metadata_offset=len(cluster.log) - 1)
    assert cluster.core.state.warmth(key, 2) is Warmth.FULL


def test_F11_an_overtaken_report_counts_for_nothing(cluster: Harness) -> None:
    earlier = len(cluster.log) - 2
    report(cluster, 2, thin_item(cluster))
    cluster.heartbeat(2, current_metadata_offset=earlier)
    assert cluster.core.state.warmth(cluster.key("t"), 2) is Warmth.THIN


def test_F11_who_completes_a_reassignment_does_not_lead_before_its_broker_has_reported(cluster: Harness) -> None:
    cluster.start(4)
    cluster.reassign("t", [4, 2])
    assert cluster.alter_isr("t", [1, 2, 3, 4])["error_code"] is ErrorCode.new_leader_elected
    assert (cluster.partition("t").replicas, cluster.partition("t").leader) == ((4, 2), 2)
    assert cluster.elect("t", 0)["error_code"] is ErrorCode.preferred_leader_not_available
    cluster.heartbeat(4)
    assert cluster.elect("t", 0)["error_code"] is ErrorCode.none


def test_F11_a_topic_that_is_not_tiered_has_no_thin_replicas(cluster: Harness) -> None:
    cluster.create("plain", [1, 2])
    cluster.failover()
    assert cluster.core.state.warmth(cluster.key("plain"), 2) is Warmth.FULL


def test_F11_brokers_of_apache_kafka_report_nothing_and_count_as_full(cluster: Harness) -> None:
    cluster.start(7, features=JAVA_FEATURES)
    cluster.create("u", [7, 1], configs=TIERED)
    cluster.heartbeat(7, want_fence=True)
    cluster.heartbeat(7)
    cluster.alter_isr("u", [7, 1])
    assert cluster.elect("u", 0)["error_code"] is ErrorCode.none
    assert cluster.partition("u").leader == 7


@pytest.mark.parametrize("broker", ["", "2"])
def test_F1_the_switch_is_a_dynamic_config_of_all_brokers_or_of_one(cluster: Harness, broker: str) -> None:
    assert cluster.configure(4, broker, **{SWITCH.replace(".", "_"): "true"})["error_code"] is ErrorCode.none
    assert cluster.image.config(4, broker) == {SWITCH: "true"}
    assert cluster.configure(4, broker, **{SWITCH.replace(".", "_"): None})["error_code"] is ErrorCode.none
    assert cluster.image.config(4, broker) == {}


def test_F1_a_value_that_no_broker_could_take_is_refused() -> None:
    def check(configs: Any) -> None:
        if configs.get(SWITCH, "true") not in ("true", "false"):
            raise KafkaError(ErrorCode.invalid_config, f"{SWITCH}: expected true or false")

    cluster = Harness(replace(CONFIG, check_broker_configs=check))
    refused = cluster.configure(4, "", **{SWITCH.replace(".", "_"): "perhaps"})
    assert refused["error_code"] is ErrorCode.invalid_config
    assert not cluster.image.configs


def test_F12_a_level_is_raised_only_if_every_node_supports_it() -> None:
    cluster = Harness(metadata_version=28)
    old = {**SUPPORTED_FEATURES, "metadata.version": FeatureRange(7, 28)}
    cluster.start(1, features=old)
    cluster.start(2)
    refused = cluster.set_feature("metadata.version", 29)
    assert refused["error_code"] is ErrorCode.invalid_update_version
    assert "broker 1" in refused["error_message"]
    assert cluster.image.metadata_version == 28
    cluster.ask(ApiKey.UNREGISTER_BROKER, {"broker_id": 1})
    assert cluster.set_feature("metadata.version", 29)["error_code"] is ErrorCode.none
    assert cluster.register(1, features=old)["error_code"] is ErrorCode.unsupported_version


def test_F12_controllers_count_too() -> None:
    cluster = Harness(metadata_version=28)
    answer = cluster.ask(
        ApiKey.CONTROLLER_REGISTRATION,
        {
            "controller_id": 101,
            "incarnation_id": UUID(int=5),
            "zk_migration_ready": False,
            "listeners": [{"name": "CONTROLLER", "host": "h", "port": 1, "security_protocol": 0}],
            "features": [
                {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 28},
                {"name": "kraft.version", "min_supported_version": 0, "max_supported_version": 1},
            ],
        },
    )
    assert answer["error_code"] is ErrorCode.none
    refused = cluster.set_feature("metadata.version", 30)
    assert "controller 101" in refused["error_message"]
    assert cluster.image.controllers[101].end_points[0].name == "CONTROLLER"


def test_F12_lowering_needs_to_be_allowed_and_a_log_that_old_nodes_can_read() -> None:
    cluster = Harness(metadata_version=29)
    assert cluster.set_feature("metadata.version", 28, 1)["error_code"] is ErrorCode.invalid_update_version
    assert cluster.set_feature("metadata.version", 28, 2)["error_code"] is ErrorCode.none
    assert cluster.set_feature("metadata.version", 30)["error_code"] is ErrorCode.none
    refused = cluster.set_feature("metadata.version", 29, 3)
    assert refused["error_code"] is ErrorCode.invalid_update_version
    assert "records" in refused["error_message"]
    assert cluster.set_feature("metadata.version", 0, 3)["error_code"] is ErrorCode.invalid_update_version
    assert cluster.set_feature("metadata.version", 31)["error_code"] is ErrorCode.invalid_update_version
    assert cluster.set_feature("metadata.version", 30, 9)["error_code"] is ErrorCode.invalid_request
    cluster.start(1)
    assert cluster.set_feature("group.version", 1)["error_code"] is ErrorCode.none
    assert cluster.set_feature("group.version", 0, 2)["error_code"] is ErrorCode.none
    assert "group.version" not in cluster.image.features


def test_F12_the_quorums_own_level_is_raised_by_the_quorum_and_never_lowered() -> None:
    cluster = Harness()
    cluster.core.state.kraft_version = 1
    answer = cluster.set_feature("kraft.version", 0, 3)
    assert answer["error_code"] is ErrorCode.invalid_update_version
    assert "kraft.version is at level" in answer["error_message"]
    assert cluster.set_feature("kraft.version", 1, 1)["error_code"] is ErrorCode.none
    cluster.core.state.kraft_version = 0
    before = len(cluster.log)
    assert cluster.set_feature("kraft.version", 2)["error_code"] is ErrorCode.invalid_update_version
    update = {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": 1}
    for validate_only in (True, False):
        values = {"timeout_ms": 1, "feature_updates": [update], "validate_only": validate_only}
        result = cluster.core.handle(request_of(ApiKey.UPDATE_FEATURES, values), cluster.moment)
        assert result.kraft_upgrade == KRaftUpgrade(1, validate_only)
    assert len(cluster.log) == before, "it is in no metadata record"


def test_F12_all_or_nothing() -> None:
    cluster = Harness()
    cluster.start(1)
    updates = [
        {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1},
        {"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1},
    ]
    values = {"timeout_ms": 1, "feature_updates": updates}
    assert cluster.ask(ApiKey.UPDATE_FEATURES, values)["error_code"] is ErrorCode.invalid_update_version
    assert "group.version" not in cluster.image.features
    values["feature_updates"] = updates[:1]
    cluster.ask(ApiKey.UPDATE_FEATURES, {**values, "validate_only": True})
    assert "group.version" not in cluster.image.features
    twice = {"timeout_ms": 1, "feature_updates": updates[:1] * 2}
    assert cluster.ask(ApiKey.UPDATE_FEATURES, twice)["error_code"] is ErrorCode.invalid_request
    old = {"feature": "group.version", "max_version_level": 1, "allow_downgrade": False}
    assert cluster.ask(ApiKey.UPDATE_FEATURES, {"timeout_ms": 1, "feature_updates": [old]}, 0)["error_code"] is (
        ErrorCode.none
    )


OURS = {
    *("metadata.version", "kraft.version", "group.version", "transaction.version", "share.version"),
    "tierfetch.version",
}
LEVELS_WITHOUT_APIS = {"streams.version": 1}


@pytest.mark.parametrize("our_brokers", [(), (1,), (1, 2)])
def test_A4_a_level_whose_apis_are_missing_is_neither_offered_nor_taken(our_brokers: tuple[int, ...]) -> None:
    cluster = Harness()
    cluster.start(*our_brokers, features=registered_features({}))
    offered = offered_features(cluster.core.state)
    assert offered.keys() == OURS
    for name, level in LEVELS_WITHOUT_APIS.items():
        refused = cluster.set_feature(name, level)
        assert refused["error_code"] is ErrorCode.invalid_update_version
        assert refused["results"] == []
    assert cluster.image.features.keys() == {"metadata.version"}


def test_A4_brokers_that_serve_a_level_may_have_it_and_ours_may_join_them() -> None:
    cluster = Harness()
    cluster.start(1, features=SUPPORTED_FEATURES)
    assert offered_features(cluster.core.state)["streams.version"] == (0, 1)
    assert cluster.set_feature("streams.version", 1)["error_code"] is ErrorCode.none
    assert cluster.register(2, features=registered_features({}))["error_code"] is ErrorCode.unsupported_version
    assert cluster.register(2, features=registered_features(cluster.image.features))["error_code"] is ErrorCode.none
    assert "streams.version" in offered_features(cluster.core.state)
    assert cluster.set_feature("eligible.leader.replicas.version", 1)["error_code"] is (
        ErrorCode.invalid_update_version
    )
    assert cluster.set_feature("transaction.version", 2)["error_code"] is ErrorCode.none


def test_A4_a_level_is_served_with_the_apis_that_it_stands_for() -> None:
    apis = {int(api) for api in ApiKey}
    assert served_features(apis).keys() == OURS
    assert served_features(apis)["group.version"] == (0, 1)
    assert "group.version" not in served_features(apis - {69})
    assert served_features(apis)["transaction.version"] == (0, 2)
    assert "transaction.version" not in served_features(apis - {26})
    assert served_features(apis)["share.version"] == (0, 1)
    assert all("share.version" not in served_features(apis - {api}) for api in (76, 78, 83, 92))
