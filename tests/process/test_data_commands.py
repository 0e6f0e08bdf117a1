"""`tierfetch groups`, `offsets`, `delete-records` and `elect-leaders` on a running cluster, with real clients."""

from __future__ import annotations

import json
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.main import cli
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import CLIENTS, create_topic
from tierfetch.tests.process.consumers import READERS, Member, until_assigned

VALUES = [b"%04d" % number for number in range(100)]


def invoke(cluster: LocalCluster, *arguments: str, code: int = 0) -> str:
    ended: Result = CliRunner().invoke(cli, [*arguments, "--bootstrap", cluster.bootstrap_servers])
    assert ended.exit_code == code, ended.output
    return ended.output


def rows(cluster: LocalCluster, *arguments: str, code: int = 0) -> Any:
    return json.loads(invoke(cluster, *arguments, "--json", code=code))


def consumed(cluster: LocalCluster, group: str, topic: str) -> None:
    """A topic of 100 records, of which a group has read and committed some."""
    create_topic(cluster.bootstrap_servers, topic, partitions=1, replicas=2)
    CLIENTS["confluent-kafka"].produce(cluster.bootstrap_servers, topic, VALUES, "none")
    READERS["confluent-kafka"](cluster.bootstrap_servers, group, topic, 30)


def committed(cluster: LocalCluster, group: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({**connecting.librdkafka(cluster.bootstrap_servers), "group.id": group})
    try:
        found = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=30)[0].offset
    finally:
        consumer.close()
    assert isinstance(found, int)
    return found


def test_a_group_is_listed_described_and_its_lag_is_what_it_has_not_read(shared_cluster: LocalCluster) -> None:
    consumed(shared_cluster, "cli-lag", "cli-lag")
    offset = committed(shared_cluster, "cli-lag", "cli-lag")
    [row] = rows(shared_cluster, "groups", "lag", "cli-lag")["cli-lag"]
    assert (row["committed"], row["end"], row["lag"], row["member"]) == (offset, 100, 100 - offset, None)
    listed = {row["group"]: row for row in rows(shared_cluster, "groups", "list")}
    assert listed["cli-lag"]["state"] == "Empty"
    [described] = rows(shared_cluster, "groups", "describe", "cli-lag")
    assert (described["state"], described["members"], described["lag"]) == ("Empty", [], 100 - offset)
    assert f"{100 - offset} records to read" in invoke(shared_cluster, "groups", "lag", "cli-lag")


def test_members_are_shown_with_their_partitions_and_keep_others_from_resetting(shared_cluster: LocalCluster) -> None:
    create_topic(shared_cluster.bootstrap_servers, "cli-members", partitions=2, replicas=2)
    with Member(shared_cluster.bootstrap_servers, "cli-members", "cli-members") as member:
        until_assigned(lambda: len(member.partitions) == 2, member)
        [described] = rows(shared_cluster, "groups", "describe", "cli-members")
        [shown] = described["members"]
        assert described["state"] == "Stable"
        assert shown["partitions"] == ["cli-members-0", "cli-members-1"]
        reset = ("groups", "reset", "cli-members", "--topic", "cli-members", "--to", "earliest", "--yes")
        assert "has members" in invoke(shared_cluster, *reset, code=1)
        assert "has members" in invoke(shared_cluster, "groups", "delete", "cli-members", "--yes", code=1)


@pytest.mark.parametrize(
    ("target", "offset"), [("earliest", 0), ("latest", 100), ("17", 17), ("1970-01-01", 0), ("2100-01-01", 100)]
)
def test_a_group_continues_where_it_is_reset(shared_cluster: LocalCluster, target: str, offset: int) -> None:
    name = f"cli-reset-{offset}-{len(target)}"
    consumed(shared_cluster, name, name)
    before = committed(shared_cluster, name, name)
    reset = ("groups", "reset", name, "--topic", name, "--to", target)
    [row] = rows(shared_cluster, *reset, "--dry-run")
    assert (row["committed"], row["new"]) == (before, offset)
    assert committed(shared_cluster, name, name) == before
    assert f"{name} continues there" in invoke(shared_cluster, *reset, "--yes")
    assert committed(shared_cluster, name, name) == offset


def test_a_group_is_deleted_with_its_offsets(shared_cluster: LocalCluster) -> None:
    consumed(shared_cluster, "cli-delete", "cli-delete")
    assert invoke(shared_cluster, "groups", "delete", "cli-delete", "--yes") == "deleted cli-delete\n"
    assert "does not exist" in invoke(shared_cluster, "groups", "lag", "cli-delete", code=1)
    assert "cli-delete" not in {row["group"] for row in rows(shared_cluster, "groups", "list")}


def test_offsets_before_and_after_records_are_deleted(shared_cluster: LocalCluster) -> None:
    consumed(shared_cluster, "cli-offsets", "cli-offsets")
    [row] = rows(shared_cluster, "offsets", "cli-offsets")
    assert (row["earliest"], row["local"], row["latest"]) == (0, 0, 100)
    by_replica = rows(shared_cluster, "offsets", "cli-offsets", "--replicas")
    assert len(by_replica) > 0
    assert [row["role"] for row in by_replica].count("leader") == 1
    assert {(row["earliest"], row["local"]) for row in by_replica} == {(0, 0)}
    assert next(row["latest"] for row in by_replica if row["role"] == "leader") == 100
    [deleted] = rows(shared_cluster, "delete-records", "cli-offsets", "--before", "40", "--yes")
    assert (deleted["log_start_offset"], deleted["error"]) == (40, None)
    assert [row["earliest"] for row in rows(shared_cluster, "offsets", "cli-offsets")] == [40]
    [refused] = rows(shared_cluster, "delete-records", "cli-offsets", "--before", "4000", "--yes", code=1)
    assert refused["error"] == "OFFSET_OUT_OF_RANGE"
    [all_of_them] = rows(shared_cluster, "delete-records", "cli-offsets", "--all", "--yes")
    assert all_of_them["log_start_offset"] == 100


def test_preferred_leaders_lead(shared_cluster: LocalCluster) -> None:
    create_topic(shared_cluster.bootstrap_servers, "cli-elect", partitions=2, replicas=2)
    for _ in poll(60, "both partitions to have leaders"):
        results = {row["result"] for row in rows(shared_cluster, "elect-leaders", "cli-elect")}
        if results == {"leads already"}:
            break
    assert "every partition has its preferred leader" in invoke(shared_cluster, "elect-leaders")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("groups", "lag", "cli-nobody"), "group cli-nobody does not exist"),
        (("offsets", "cli-no-topic"), "topic cli-no-topic does not exist"),
    ],
)
def test_what_is_not_there_is_named(shared_cluster: LocalCluster, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in invoke(shared_cluster, *arguments, code=1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("groups", "reset", "g", "--topic", "t", "--to", "soon"), "expected earliest, latest, an offset"),
        (("delete-records", "t", "--yes"), "one of --before OFFSET and --all is needed"),
        (("delete-records", "t", "--yes", "--all", "--before", "3"), "one of --before OFFSET and --all is needed"),
        (("elect-leaders", "--unclean"), "--unclean needs the topics by name"),
        (("elect-leaders", "--partition", "3"), "--partition needs its topic by name"),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], complaint: str) -> None:
    ended = CliRunner().invoke(cli, [*arguments])
    assert ended.exit_code == 2
    assert complaint in ended.output
