"""Metadata records to images that do not change under anybody's hands"""

from __future__ import annotations

from uuid import UUID

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, EndPoint, PartitionRegistration
from tierfetch.broker.core.metadata_view import DEFAULT_BROKER, MetadataView, knows_pending_uploads
from tierfetch.controller import records as r
from tierfetch.controller.records import MetadataRecord, encode_record
from tierfetch.protocol.topics import interned_id
from tierfetch.security.core.acl import AclOperation, AclPermissionType, PatternType, ResourceType

TOPIC = UUID(int=5)
DIRECTORY = UUID(int=1000)


def registered(broker_id: int = 1, *, epoch: int = 7, fenced: bool = True) -> r.RegisterBrokerRecord:
    end_points = (
        r.BrokerEndpoint(name="INTERNAL", host="10.0.0.1", port=1, security_protocol=0),
        r.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0),
    )
    return r.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=UUID(int=9),
        broker_epoch=epoch,
        end_points=end_points,
        features=(),
        rack="r1",
        fenced=fenced,
        log_dirs=(DIRECTORY,),
    )


def topic(topic_id: UUID = TOPIC, name: str = "t") -> r.TopicRecord:
    return r.TopicRecord(name=name, topic_id=topic_id)


def partition(number: int, *, topic_id: UUID = TOPIC, leader: int = 1) -> r.PartitionRecord:
    return r.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=(1, 2),
        isr=(1, 2),
        removing_replicas=(),
        adding_replicas=(),
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=(DIRECTORY, DIRECTORY),
    )


def applied(view: MetadataView, *records: MetadataRecord) -> bool:
    return view.apply([encode_record(record) for record in records])


def view_of(*records: MetadataRecord) -> MetadataView:
    view = MetadataView("cluster", "PLAINTEXT")
    applied(view, *records)
    return view


def test_C4_brokers_topics_and_configs_become_an_image() -> None:
    view = view_of(
        registered(),
        topic(),
        partition(0),
        partition(1, leader=2),
        r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
        r.ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="6"),
        r.ConfigRecord(resource_type=4, resource_name="1", name="message.max.bytes", value="7"),
    )
    image = view.cluster
    assert image.cluster_id == "cluster"
    end_points = (EndPoint("INTERNAL", "10.0.0.1", 1), EndPoint("PLAINTEXT", "127.0.0.1", 9092))
    assert image.brokers == {
        1: BrokerRegistration(1, "127.0.0.1", 9092, "r1", (DIRECTORY,), True, False, 7, end_points)
    }
    assert image.topics["t"].topic_id == TOPIC
    assert image.topics["t"].configs == {"retention.ms": "5"}
    assert image.topics["t"].partitions == {
        0: PartitionRegistration(1, 0, 0, (1, 2), (1, 2), (DIRECTORY, DIRECTORY)),
        1: PartitionRegistration(2, 0, 0, (1, 2), (1, 2), (DIRECTORY, DIRECTORY)),
    }
    assert image.broker_configs == {DEFAULT_BROKER: {"message.max.bytes": "6"}, "1": {"message.max.bytes": "7"}}


def test_a_topic_is_known_by_the_object_that_requests_name_it_with() -> None:
    image = view_of(topic(TOPIC)).cluster
    assert image.topics["t"].topic_id is interned_id(UUID(int=5))
    assert next(iter(image.topic_names)) is interned_id(UUID(int=5))


def test_a_broker_that_is_unfenced_or_leaving_is_told_so() -> None:
    view = view_of(registered())
    applied(view, r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1))
    assert view.cluster.brokers[1].may_join_isr
    applied(view, r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1))
    assert (view.cluster.brokers[1].fenced, view.cluster.brokers[1].may_join_isr) == (False, False)
    applied(view, r.UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    assert view.cluster.brokers == {}


def test_C4_an_image_never_changes_and_shares_what_did_not() -> None:
    view = view_of(registered(), topic(), partition(0), topic(UUID(int=6), "u"), partition(0, topic_id=UUID(int=6)))
    before = view.cluster
    assert applied(view, r.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(2,), leader=2))
    after = view.cluster
    assert before.topics["t"].partitions[0].isr == (1, 2)
    assert after.topics["t"].partitions[0] == PartitionRegistration(2, 1, 1, (1, 2), (2,), (DIRECTORY, DIRECTORY))
    assert after.topics["u"] is before.topics["u"]
    assert after.brokers is before.brokers


def test_a_topic_made_anew_takes_the_place_of_the_old_one() -> None:
    view = view_of(topic(), partition(0), partition(1))
    other = UUID(int=6)
    applied(view, r.RemoveTopicRecord(topic_id=TOPIC), topic(other), partition(0, topic_id=other))
    assert view.cluster.topics["t"].topic_id == other
    assert list(view.cluster.topics["t"].partitions) == [0]
    applied(view, r.RemoveTopicRecord(topic_id=other))
    assert view.cluster.topics == {}


def test_F12_feature_levels_are_part_of_the_image() -> None:
    view = view_of()
    assert view.cluster.features == {}
    applied(view, r.FeatureLevelRecord(name="metadata.version", feature_level=28))
    before = view.cluster
    assert before.features == {"metadata.version": 28}
    assert not knows_pending_uploads(before)
    applied(view, r.FeatureLevelRecord(name="metadata.version", feature_level=29))
    assert knows_pending_uploads(view.cluster)
    assert before.features == {"metadata.version": 28}
    assert knows_pending_uploads(ClusterImage("static", {}, {}, {}))


def test_batches_that_say_nothing_of_brokers_and_topics_change_nothing() -> None:
    view = view_of(registered())
    before = view.cluster
    assert not applied(view, r.NoOpRecord())
    assert not view.apply([])
    assert view.cluster is before


def test_a_snapshot_replaces_everything() -> None:
    view = view_of(registered(), topic(), partition(0))
    view.load([[encode_record(registered(2))], [encode_record(topic(UUID(int=8), "v"))]])
    assert list(view.cluster.brokers) == [2]
    assert list(view.cluster.topics) == ["v"]


def test_C4_the_image_changes_at_once_when_the_last_step_is_done() -> None:
    """A topic is never seen with a part of its partitions, however many iterations of the loop its records take."""
    view = view_of(registered())
    records = [topic(), *(partition(number) for number in range(9))]
    steps = view.apply_steps([encode_record(record) for record in records], size=3)
    seen = []
    for _ in steps:
        seen.append(dict(view.cluster.topics))
    assert len(seen) > 3
    assert set(map(len, seen)) == {0}
    assert sorted(view.cluster.topics["t"].partitions) == list(range(9))


def test_the_end_of_a_transaction_takes_as_many_steps_as_its_records() -> None:
    view = view_of(registered())
    records = [r.BeginTransactionRecord(), topic(), *(partition(number) for number in range(9))]
    assert not view.apply([encode_record(record) for record in records])
    steps = view.apply_steps([encode_record(r.EndTransactionRecord())], size=3)
    assert [len(view.cluster.topics) for _ in steps] == [0, 0, 0, 0]
    assert sorted(view.cluster.topics["t"].partitions) == list(range(9))


def test_C4_a_snapshot_that_is_loaded_in_steps_leaves_what_was_there_until_the_end() -> None:
    view = view_of(registered(), topic(), partition(0))
    before, metadata = view.cluster, view.metadata
    other = [topic(UUID(int=8), "v"), *(partition(number, topic_id=UUID(int=8)) for number in range(9))]
    for _ in view.load_steps([[encode_record(record)] for record in other], size=3):
        assert view.cluster is before
        assert view.metadata is metadata
    assert list(view.cluster.topics) == ["v"]
    assert sorted(view.cluster.topics["v"].partitions) == list(range(9))


def test_no_request_sees_acls_of_one_batch_without_each_other() -> None:
    acls = [
        r.AccessControlEntryRecord(
            id_=UUID(int=number),
            resource_type=ResourceType.TOPIC,
            resource_name="t",
            pattern_type=PatternType.LITERAL,
            principal="User:a",
            host=f"10.0.0.{number}",
            operation=AclOperation.READ,
            permission_type=AclPermissionType.DENY,
        )
        for number in range(1, 8)
    ]
    view = MetadataView("cluster", "PLAINTEXT")
    for records in (acls, [r.RemoveAccessControlEntryRecord(id_=acl.id_) for acl in acls]):
        before = len(list(view.cluster.acls.items()))
        seen = [
            len(list(view.cluster.acls.items()))
            for _ in view.apply_steps([encode_record(record) for record in records], size=3)
        ]
        assert set(seen) <= {before}
    assert list(view.cluster.acls.items()) == []
