"""What operators are shown is compared with the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.protocol import ErrorCode, TopicPartition
from tierfetch.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tierfetch.protocol.messages.configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tierfetch.protocol.messages.topics import CreatableTopicResult, CreateTopicsResponse
from tierfetch.protocol.messages.transactions import ProducerState
from tierfetch.protocol.wire import ConfigSource, ResourceType
from tierfetch.sim.judges.core.clients.looks import (
    NOTHING,
    wrong_cluster,
    wrong_configs,
    wrong_directories,
    wrong_metrics,
    wrong_producers,
)
from tierfetch.sim.scenarios.looks.controllers import WRITES, codes_in

IMAGE = ClusterImage(
    "c",
    {number: BrokerRegistration(number, f"broker-{number}", 9092) for number in (1, 2)},
    {"t": TopicImage("t", UUID(int=7), {}, {0: PartitionRegistration(1, 5, 9, (1, 2), (1, 2))})},
    {},
)
LABELS = (("partition", "0"), ("topic", "t"))
NAME = TopicPartition("t", 0)


def cluster(*brokers: int, cluster_id: str = "c", port: int = 9092) -> DescribeClusterResponse:
    named = tuple(
        DescribeClusterBroker(broker_id=each, host=f"broker-{each}", port=port, rack=None) for each in brokers
    )
    return DescribeClusterResponse(error_message=None, cluster_id=cluster_id, brokers=named)


def test_a_cluster_has_the_brokers_of_its_metadata() -> None:
    assert not list(wrong_cluster(cluster(1, 2), IMAGE))
    for answer in (cluster(1), cluster(1, 2, 3), cluster(1, 2, cluster_id="d"), cluster(1, 2, port=9093)):
        assert len(list(wrong_cluster(answer, IMAGE))) == 1
    refused = replace(cluster(1, 2), error_code=ErrorCode.unknown_server_error)
    assert len(list(wrong_cluster(refused, IMAGE))) == 1


def config(
    name: str, value: str, source: ConfigSource, *synonyms: tuple[str, ConfigSource]
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=tuple(DescribeConfigsSynonym(name=name, value=each, source=kind) for each, kind in synonyms),
    )


def described(*configs: DescribeConfigsResourceResult, code: ErrorCode = ErrorCode.none) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=None, resource_type=ResourceType.TOPIC, resource_name="t", configs=configs
    )


OWN, DEFAULT = ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        (described(config("a", "1", OWN, ("1", OWN), ("0", DEFAULT)), config("b", "2", DEFAULT)), 0),
        (described(config("b", "2", DEFAULT)), 1),
        (described(config("a", "2", OWN)), 1),
        (described(config("a", "1", DEFAULT)), 1),
        (described(config("a", "1", OWN), config("b", "2", OWN)), 1),
        (described(config("a", "1", OWN, ("0", DEFAULT), ("1", OWN))), 1),
        (described(code=ErrorCode.invalid_request), 1),
    ],
)
def test_configs_are_those_that_were_set(result: DescribeConfigsResult, wrong: int) -> None:
    assert len(list(wrong_configs(result, {"a": "1"}))) == wrong


def directory(*partitions: DescribeLogDirsPartition, code: ErrorCode = ErrorCode.none) -> DescribeLogDirsResult:
    topics = (DescribeLogDirsTopic(name="t", partitions=partitions),)
    return DescribeLogDirsResult(error_code=code, log_dir="/data", topics=topics, total_bytes=100, usable_bytes=50)


HERE = DescribeLogDirsPartition(partition_index=0, partition_size=10, offset_lag=0, is_future_key=False)


@pytest.mark.parametrize(
    ("results", "wrong"),
    [
        ([directory(HERE)], 0),
        ([directory(HERE), directory()], 0),
        ([directory()], 1),
        ([directory(HERE), directory(HERE)], 1),
        ([directory(replace(HERE, partition_size=11))], 1),
        ([directory(replace(HERE, offset_lag=1))], 1),
        ([directory(HERE), directory(replace(HERE, is_future_key=True))], 2),
        ([directory(replace(HERE, is_out_of_service=True))], 1),
        ([directory(HERE, code=ErrorCode.kafka_storage_error)], 1),
        ([replace(directory(HERE), usable_bytes=101)], 1),
    ],
)
def test_each_replica_is_in_one_directory_with_its_size(results: list[DescribeLogDirsResult], wrong: int) -> None:
    assert len(list(wrong_directories(results, {NAME: 10}))) == wrong


def producer(epoch: int, last_sequence: int, start_offset: int = -1) -> ProducerState:
    return ProducerState(
        producer_id=3,
        producer_epoch=epoch,
        last_sequence=last_sequence,
        coordinator_epoch=0,
        current_txn_start_offset=start_offset,
    )


@pytest.mark.parametrize(
    ("said", "known", "wrong"),
    [
        (producer(1, 5), {3: (1, 5)}, 0),
        (producer(1, 5), {}, 0),
        (producer(1, -1), {3: (1, 5)}, 0),
        (producer(1, 5), {3: (2, 5)}, 1),
        (producer(1, 5), {3: (1, 6)}, 1),
        (producer(1, 5, start_offset=0), {3: (1, 5)}, 1),
    ],
)
def test_replicas_know_the_same_of_a_producer(
    said: ProducerState, known: Mapping[int, tuple[int, int]], wrong: int
) -> None:
    assert len(list(wrong_producers("t-0", [said], known))) == wrong


def scrapes() -> dict[int, dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    """What two brokers report of the one partition of `IMAGE`."""
    of_all = {
        broker_id: {
            **{(name, ()): 0.0 for name in NOTHING},
            ("tierfetch_partitions", ()): 1.0,
            ("tierfetch_leaders", ()): float(broker_id == 1),
            ("tierfetch_leader_epoch", LABELS): 5.0,
            ("tierfetch_is_leader", LABELS): float(broker_id == 1),
            ("tierfetch_log_end_offset", LABELS): 40.0,
            ("tierfetch_high_watermark", LABELS): 40.0,
        }
        for broker_id in (1, 2)
    }
    of_all[1]["tierfetch_isr_size", LABELS] = 2.0
    return of_all


def test_metrics_are_those_of_the_metadata() -> None:
    assert not list(wrong_metrics(scrapes(), IMAGE))
    for broker_id, samples in scrapes().items():
        for key in samples:
            for change in (lambda value: value + 1, None):
                changed = scrapes()
                if change is None:
                    del changed[broker_id][key]
                else:
                    changed[broker_id][key] = change(samples[key])
                assert len(list(wrong_metrics(changed, IMAGE))) == 1, (broker_id, key, change)


def test_a_follower_reports_no_isr() -> None:
    changed = scrapes()
    changed[2]["tierfetch_isr_size", LABELS] = 2.0
    assert list(wrong_metrics(changed, IMAGE)) == [
        "t-0: tierfetch_isr_size is {1: 2.0, 2: 2.0} by broker, expected was {1: 2}"
    ]


def test_all_codes_of_an_answer_are_looked_at() -> None:
    codes = (ErrorCode.none, ErrorCode.not_controller)
    parts = tuple(CreatableTopicResult(name="t", error_code=each, error_message=None) for each in codes)
    assert tuple(codes_in(CreateTopicsResponse(topics=parts))) == codes
    assert len({each.api_key for each in WRITES}) == len(WRITES), "each is asked once"
