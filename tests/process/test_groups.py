"""Consumer groups with real clients: subscribe, commit, share, be killed; and brokers that end under them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC
from tierfetch.tests.process.clients import CLIENTS, create_topic
from tierfetch.tests.process.consumers import READERS, Member, doomed_member, until_assigned
from tierfetch.tests.process.looks import leader_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")

VALUES = [b"%04d" % number for number in range(100)]


def filled(servers: str, topic: str, *, partitions: int = 1, replicas: int = 2) -> None:
    create_topic(servers, topic, partitions=partitions, replicas=replicas)
    CLIENTS["confluent-kafka"].produce(servers, topic, VALUES, "none")


@pytest.mark.parametrize("name", READERS)
def test_a_group_goes_on_where_it_committed(shared_cluster: LocalCluster, name: str) -> None:
    servers, topic = shared_cluster.bootstrap_servers, f"groups-{name}"
    filled(servers, topic)
    first = READERS[name](servers, f"group-{name}", topic, 30)
    assert first == VALUES[: len(first)]
    rest = len(VALUES) - len(first)
    assert READERS[name](servers, f"group-{name}", topic, rest) == VALUES[len(first) :]


def test_clients_of_any_kind_are_one_group(shared_cluster: LocalCluster) -> None:
    servers, topic = shared_cluster.bootstrap_servers, "groups-mixed"
    filled(servers, topic)
    read: list[bytes] = []
    for name in READERS:
        read += READERS[name](servers, "mixed", topic, 10)
    assert read == VALUES[: len(read)]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_share_the_partitions(shared_cluster: LocalCluster, strategy: str) -> None:
    servers, topic = shared_cluster.bootstrap_servers, f"shared-{strategy}"
    create_topic(servers, topic, partitions=4)
    with Member(servers, topic, topic, partition_assignment_strategy=strategy) as first:
        until_assigned(lambda: len(first.partitions) == 4, first)
        with Member(servers, topic, topic, partition_assignment_strategy=strategy) as second:
            until_assigned(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
            assert not first.partitions & second.partitions
        until_assigned(lambda: len(first.partitions) == 4, first)


def test_the_others_take_over_from_a_member_that_is_killed(shared_cluster: LocalCluster) -> None:
    servers, topic = shared_cluster.bootstrap_servers, "killed"
    create_topic(servers, topic, partitions=4)
    doomed = doomed_member(servers, topic, topic)
    try:
        assert doomed.stdout is not None
        assert doomed.stdout.readline()
        with Member(servers, topic, topic) as survivor:
            until_assigned(lambda: len(survivor.partitions) == 2, survivor)
            doomed.kill()
            until_assigned(lambda: len(survivor.partitions) == 4, survivor)
    finally:
        doomed.kill()
        doomed.wait()


def test_a_static_member_comes_back_to_its_partitions(shared_cluster: LocalCluster) -> None:
    servers, topic = shared_cluster.bootstrap_servers, "static"
    create_topic(servers, topic, partitions=4)
    with Member(servers, topic, topic, group_instance_id="one") as first:
        second = Member(servers, topic, topic, group_instance_id="two")
        until_assigned(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
        before = second.partitions
        second.consumer.close()
        with Member(servers, topic, topic, group_instance_id="two") as again:
            until_assigned(lambda: bool(again.partitions), first, again)
            assert again.partitions == before


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, (1, 2)) as running:
        yield running


PATIENT_SESSION_MS = 45_000
"""librdkafka's default. A client that hears of no coordinator for a session gives up what it was assigned, by itself;
while both brokers are killed, one right after the other, nobody coordinates its group.
"""


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_group_survives_a_restart_of_its_coordinator(cluster: LocalCluster, how: str) -> None:
    servers = cluster.bootstrap_servers
    filled(servers, "t")
    with Member(servers, "g", "t", session_timeout_ms=PATIENT_SESSION_MS) as member:
        assert member.read(40) == VALUES[:40]
        member.consumer.commit(asynchronous=False)
        for broker in cluster.broker_ids:
            getattr(cluster, how)(broker)
            cluster.start(broker)
            cluster.wait_serving(broker)
        assert member.read(30) == VALUES[40:70]
        commit_once_known(member)
    assert READERS["confluent-kafka"](servers, "g", "t", 30) == VALUES[70:]


def commit_once_known(member: Member) -> None:
    """The client may not have found its coordinator yet, and says so."""
    for _ in poll(30, "the coordinator to be known", 0.2):
        try:
            member.consumer.commit(asynchronous=False)
            return
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError._WAIT_COORD:
                raise


def test_a_group_survives_the_end_of_its_coordinator(cluster: LocalCluster) -> None:
    """The other broker takes over its partition of the groups' topic."""
    servers = cluster.bootstrap_servers
    filled(servers, "t")
    assert READERS["confluent-kafka"](servers, "g", "t", 40) == VALUES[:40]
    coordinators = {leader_of(cluster, GROUP_METADATA_TOPIC, partition) for partition in range(5)}
    assert coordinators == {1, 2}
    gone = 1
    cluster.kill(gone)
    assert READERS["confluent-kafka"](f"127.0.0.1:{cluster.port(2)}", "g", "t", 60) == VALUES[40:]
