"""Three controllers, three brokers and a tier: what the cluster does by itself when its parts are hurt"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.admin.broker_wait import BrokerProgress, wait_for
from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP
from tierfetch.protocol.net import Address
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.looks import log_bytes
from tierfetch.tests.process.producing import SteadyProducer
from tierfetch.tests.process.whole_cluster import BROKERS, TIMEOUT_S, WholeCluster, whole_cluster

TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path) as running:
        yield running


def test_C1_C2_a_killed_leader_is_replaced_and_nothing_is_lost(cluster: WholeCluster) -> None:
    create_topic(cluster.servers, "t", replicas=3, configs={"min.insync.replicas": "2"})
    cluster.wait("t", "to have all in sync", lambda part: set(part.isr_nodes) == set(BROKERS))
    with SteadyProducer(cluster.servers, "t") as producer:
        for _ in range(2):
            producer.wait_acknowledged(200)
            before = cluster.partition("t")
            cluster.brokers.kill(before.leader_id)
            # The preferred leader may have come back at the same moment, while the killed one was still in the ISR.
            after = cluster.wait(
                "t", "to be without the killed broker", lambda part, dead=before.leader_id: dead not in part.isr_nodes
            )
            assert after.leader_id != before.leader_id
            assert after.leader_epoch > before.leader_epoch
            producer.wait_acknowledged(200)
            cluster.brokers.start(before.leader_id)
            cluster.wait("t", "to have all in sync again", lambda part: set(part.isr_nodes) == set(BROKERS))
    producer.check_consumed()


def test_C1_who_waits_for_a_killed_broker_waits_for_its_new_incarnation(cluster: WholeCluster) -> None:
    create_topic(cluster.servers, "t", replicas=3)
    found = cluster.wait(
        "t", "to be led, with all in sync", lambda part: part.leader_id >= 0 and set(part.isr_nodes) == set(BROKERS)
    )
    killed = next(broker for broker in BROKERS if broker != found.leader_id)

    async def restarted() -> BrokerProgress:
        async with Admin([Address("127.0.0.1", cluster.brokers.port(found.leader_id))], timeout_s=TIMEOUT_S) as admin:
            await admin.cluster()
            cluster.brokers.kill(killed)
            cluster.brokers.start(killed)
            return await wait_for(admin, killed, lambda _: None, with_warming=False, timeout_s=TIMEOUT_S)

    done = asyncio.run(restarted())
    socket.create_connection(("127.0.0.1", cluster.brokers.port(killed)), 5.0).close()
    assert done.in_sync == done.replicas > 0


def test_C5_decisions_outlive_the_active_controller(cluster: WholeCluster) -> None:
    create_topic(cluster.servers, "before", replicas=3)
    active = cluster.quorum.leader()
    cluster.quorum.kill(active)
    create_topic(cluster.servers, "after", replicas=3)
    for topic in ("before", "after"):
        Librdkafka().produce(cluster.servers, topic, [b"1", b"2"], "none")
        assert Librdkafka().consume(cluster.servers, topic, 2) == [b"1", b"2"]
    cluster.quorum.start(active)
    cluster.quorum.wait_serving(active)
    leader = cluster.partition("after").leader_id
    cluster.brokers.kill(leader)
    cluster.wait_led_by_another("after", leader)


def test_C1_F6_a_wiped_broker_is_another_one_and_comes_back_from_the_tier(cluster: WholeCluster) -> None:
    values = [b"%06d " % number + b"x" * 1000 for number in range(6000)]
    create_topic(cluster.servers, "t", replicas=3, configs=TIERED)
    Librdkafka().produce(cluster.servers, "t", values, "none")
    found = cluster.wait("t", "to have all in sync", lambda part: set(part.isr_nodes) == set(BROKERS))
    port = cluster.brokers.port(found.leader_id)
    for _ in poll(TIMEOUT_S, "segments to be tiered"):
        pending = list_offset(port, "t", 0, EARLIEST_PENDING_UPLOAD_TIMESTAMP).offset
        if pending >= 4000:
            break
    follower = next(broker for broker in BROKERS if broker != found.leader_id)
    cluster.brokers.kill(follower)
    cluster.brokers.wipe(follower)
    cluster.brokers.start(follower)
    cluster.wait("t", "to lose the wiped replica", lambda part: follower not in part.isr_nodes)
    assert "replicas are in sync" in cluster.run("brokers", "wait", str(follower))
    assert follower in cluster.partition("t").isr_nodes
    replica = log_bytes(cluster.brokers, follower, "t")
    assert min(replica) >= pending - 1100, "it holds what the tier lacked"
    leader = log_bytes(cluster.brokers, cluster.partition("t").leader_id, "t")
    assert {base: leader[base] for base in replica if base in leader} == {
        base: data for base, data in replica.items() if base in leader
    }
    # What it took over from the tier it can also serve, as the leader.
    for broker in BROKERS:
        if broker != follower:
            cluster.brokers.stop(broker)
    cluster.wait("t", "to be led by the replacement", lambda part: part.leader_id == follower)
    assert Librdkafka().consume(f"127.0.0.1:{cluster.brokers.port(follower)}", "t", len(values)) == values


def test_C1_the_last_copy_is_not_elected_after_a_wipe(cluster: WholeCluster) -> None:
    create_topic(cluster.servers, "t", replicas=1)
    Librdkafka().produce(cluster.servers, "t", [b"precious"], "none")
    leader = cluster.partition("t").leader_id
    cluster.brokers.kill(leader)
    cluster.brokers.wipe(leader)
    cluster.brokers.start(leader)
    cluster.brokers.wait_serving(leader)
    found = cluster.wait("t", "to have no member in sync", lambda part: part.isr_nodes == ())
    assert found.leader_id == -1


def test_C6_replicas_move_and_topics_come_grow_and_go_by_command(cluster: WholeCluster, tmp_path: Path) -> None:
    cluster.run("topics", "create", "t", "--partitions", "2", "--replication", "2")
    Librdkafka().produce(cluster.servers, "t", [b"%d" % number for number in range(500)], "none")
    cluster.run("topics", "grow", "t", "--to", "3")
    described = json.loads(cluster.run("topics", "describe", "t", "--json"))
    assert [row["partition"] for row in described] == [0, 1, 2]
    old = described[0]["replicas"]
    new = [next(broker for broker in BROKERS if broker not in old), old[0]]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": new}]}))
    cluster.run("reassign", "execute", str(plan))
    found = cluster.wait("t", "to have moved", lambda part: list(part.replica_nodes) == new)
    assert set(found.isr_nodes) == set(new)
    assert Librdkafka().consume(cluster.servers, "t", 500) == [b"%d" % number for number in range(500)]
    gone = cluster.brokers.data_directory(old[1]) / "t-0"
    for _ in poll(TIMEOUT_S, "the old replica to go"):
        if not gone.exists():
            break
    cluster.run("topics", "delete", "t", "--yes")
    assert json.loads(cluster.run("topics", "list", "--json"))[-1]["topic"] != "t"
    for broker in BROKERS:
        for _ in poll(TIMEOUT_S, f"broker {broker} to delete its replicas"):
            if not list(cluster.brokers.data_directory(broker).glob("t-[0-9]")):
                break


def test_F1_the_option_is_switched_for_all_brokers_without_a_restart(cluster: WholeCluster) -> None:
    key = "follower.fetch.last.tiered.offset.enable"
    for value, source in (("false", "this broker, dynamic"), ("true", "this broker, dynamic")):
        cluster.run("configs", "alter", "--broker", "12", "--set", f"{key}={value}")
        for _ in poll(TIMEOUT_S, f"{key} to be {value}"):
            found = json.loads(cluster.run("configs", "describe", "--broker", "12", "--json"))
            entry = next(entry for entry in found if entry["name"] == key)
            if (entry["value"], entry["source"]) == (value, source):
                break
    cluster.run("configs", "alter", "--broker", "12", "--remove", key)
    cluster.run("configs", "alter", "--broker", "default", "--set", f"{key}=false")
    for broker in BROKERS:
        for _ in poll(TIMEOUT_S, f"{key} to be false everywhere"):
            found = json.loads(cluster.run("configs", "describe", "--broker", str(broker), "--json"))
            if next(entry["value"] for entry in found if entry["name"] == key) == "false":
                break


def test_C10_a_broker_that_stops_in_order_hands_over_first(cluster: WholeCluster) -> None:
    create_topic(cluster.servers, "t", replicas=2, configs={"min.insync.replicas": "1"})
    found = cluster.wait("t", "to have both in sync", lambda part: len(part.isr_nodes) == 2)
    with SteadyProducer(cluster.servers, "t") as producer:
        producer.wait_acknowledged(100)
        cluster.brokers.stop(found.leader_id)
        after = cluster.partition("t")
        assert after.leader_id not in (-1, found.leader_id)
        producer.wait_acknowledged(100)
    producer.check_consumed()
    epochs = list_offset(cluster.brokers.port(after.leader_id), "t", 0, EARLIEST_LOCAL_TIMESTAMP)
    assert epochs.offset == 0


def test_C10_a_live_broker_that_is_unregistered_gets_its_leaderships_back(cluster: WholeCluster) -> None:
    create_topic(cluster.servers, "t", replicas=2)
    before = cluster.wait("t", "to have both in sync", lambda part: len(part.isr_nodes) == 2)
    unregister = ("brokers", "unregister", str(before.leader_id), "--yes")
    assert f"broker {before.leader_id} is alive" in cluster.run(*unregister, code=1)
    assert cluster.partition("t").leader_epoch == before.leader_epoch
    cluster.run(*unregister, "--force")
    cluster.wait_led_by_another("t", before.leader_id)
    cluster.wait("t", "to be led by its preferred replica", lambda part: part.leader_id == before.leader_id)
