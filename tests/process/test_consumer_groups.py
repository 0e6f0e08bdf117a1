"""G1: consumer groups of KIP-848 with librdkafka: join, share, come back; and coordinators that end under them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import CLIENTS, create_topic
from tierfetch.tests.process.consumers import Member, NewMember, until_assigned
from tierfetch.tests.process.test_cluster_command import tierfetch

VALUES = [b"%04d" % number for number in range(100)]
CONFIGS = {
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), (1, 2), configs=CONFIGS) as running:
        yield running


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_the_partitions(cluster: LocalCluster, assignor: str) -> None:
    servers, topic = cluster.bootstrap_servers, f"shared-{assignor}"
    create_topic(servers, topic, partitions=4)
    with NewMember(servers, topic, topic, group_remote_assignor=assignor) as first:
        until_assigned(lambda: len(first.partitions) == 4, first)
        with NewMember(servers, topic, topic, group_remote_assignor=assignor) as second:
            until_assigned(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
            assert not first.partitions & second.partitions
        until_assigned(lambda: len(first.partitions) == 4, first)


def test_a_group_goes_on_where_it_committed(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "committed", partitions=1, replicas=2)
    CLIENTS["confluent-kafka"].produce(servers, "committed", VALUES, "none")
    with NewMember(servers, "committed", "committed") as member:
        assert member.read(30) == VALUES[:30]
        member.consumer.commit(asynchronous=False)
        described = tierfetch(servers, "groups", "describe", "committed")
        assert "committed: Stable, assignor uniform, lag 70" in described
        assert "committed-0" in described
    with NewMember(servers, "committed", "committed") as member:
        assert member.read(70) == VALUES[30:]


def test_a_regular_expression_finds_topics_that_come_later(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "found-1", partitions=2)
    with NewMember(servers, "found", "^found-[0-9]") as member:
        until_assigned(lambda: len(member.consumer.assignment()) == 2, member)
        create_topic(servers, "found-2", partitions=1)
        until_assigned(lambda: len(member.consumer.assignment()) == 3, member)


def test_a_static_member_comes_back_to_its_partitions(cluster: LocalCluster) -> None:
    servers, topic = cluster.bootstrap_servers, "static"
    create_topic(servers, topic, partitions=4)
    with NewMember(servers, topic, topic, group_instance_id="one") as first:
        second = NewMember(servers, topic, topic, group_instance_id="two")
        until_assigned(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
        before = second.partitions
        second.consumer.close()
        with NewMember(servers, topic, topic, group_instance_id="two") as again:
            until_assigned(lambda: bool(again.partitions), first, again)
            assert again.partitions == before


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_clients_are_upgraded_one_after_the_other_and_taken_back(cluster: LocalCluster, strategy: str) -> None:
    """The same group all the time: no partition is in two hands, offsets stay."""
    servers, topic = cluster.bootstrap_servers, f"upgraded-{strategy}"
    create_topic(servers, topic, partitions=4)

    def old() -> Member:
        return Member(servers, topic, topic, partition_assignment_strategy=strategy)

    def shared(*members: Member) -> None:
        until_assigned(
            lambda: sum(len(each.partitions) for each in members) == 4 and all(each.partitions for each in members),
            *members,
        )
        assert set().union(*(each.partitions for each in members)) == {0, 1, 2, 3}

    first, second = old(), old()
    shared(first, second)
    second.consumer.close()
    with NewMember(servers, topic, topic) as third:
        shared(first, third)
        assert kind_of(servers, topic) == "consumer"
        first.consumer.close()
        shared(third)
        again = old()
        shared(third, again)
    shared(again)
    assert kind_of(servers, topic) == "classic"
    again.consumer.close()


def kind_of(servers: str, group: str) -> str:
    admin = AdminClient(connecting.librdkafka(servers))
    listed = admin.list_consumer_groups(request_timeout=30).result()
    (found,) = [each for each in listed.valid if each.group_id == group]
    return found.type.name.lower()


def test_a_group_survives_the_loss_of_its_coordinators(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, (1, 2), configs=CONFIGS) as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "t", partitions=1, replicas=2)
        CLIENTS["confluent-kafka"].produce(servers, "t", VALUES, "none")
        with NewMember(servers, "g", "t") as member:
            assert member.read(40) == VALUES[:40]
            member.consumer.commit(asynchronous=False)
            for broker in cluster.broker_ids:
                cluster.kill(broker)
                cluster.start(broker)
                cluster.wait_serving(broker)
            assert member.read(60) == VALUES[40:]
            member.consumer.commit(asynchronous=False)
