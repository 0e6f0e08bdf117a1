"""The cluster file: written and read back, and what is said about a wrong one."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.static_file import ClusterFileError, StaticState, decode, encode
from tierfetch.tests.broker.images import CLUSTER_ID, image, partition, topic

TOPIC = (
    "{name: t, topic_id: AAAAAAAAAAAAAAAAAAAB9A, partitions: [{partition: 0, leader: 1, replicas: [1, 2], isr: [1]}]}"
)


def test_a_file_as_people_write_it() -> None:
    text = f"""
    cluster_id: {CLUSTER_ID}
    brokers:
    - {{id: 1, host: 127.0.0.1, port: 9092}}
    topics:
    - name: t
      topic_id: AAAAAAAAAAAAAAAAAAAB9A
      configs: {{remote.storage.enable: true, retention.ms: 1000}}
      partitions:
      - {{partition: 0, leader: 1, replicas: [1, 2], isr: [1]}}
    broker_configs: {{default: {{follower.fetch.last.tiered.offset.enable: true}}}}
    """
    state = decode(text.encode())
    assert state.image.topics["t"].configs == {"remote.storage.enable": "true", "retention.ms": "1000"}
    assert state.image.topics["t"].topic_id == UUID(int=500)
    assert state.image.topics["t"].partitions[0] == partition(1, (1, 2), (1,))
    assert state.image.broker_configs == {"default": {"follower.fetch.last.tiered.offset.enable": "true"}}
    assert state.image.brokers[1].directory_ids == ()


@given(
    epochs=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), min_size=1, max_size=4),
    value=st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))),
    producer_id=st.integers(0, 2**62),
)
def test_encode_then_decode_gives_the_state_back(epochs: list[tuple[int, int]], value: str, producer_id: int) -> None:
    partitions = [partition(1, (1, 2), leader_epoch=leader, epoch=epoch) for leader, epoch in epochs]
    state = StaticState(
        image(topic("a", *partitions, key=value), topic("b", partition(-1, (3,), ()), topic_id=9)), producer_id
    )
    assert decode(encode(state)) == state


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not YAML"),
        ("- a", "expected a mapping"),
        ("brokers: []", "cluster_id: Field required"),
        ("cluster_id: short", "'short' is not a Kafka uuid"),
        (f"cluster_id: {CLUSTER_ID}\ncolour: red", "colour: Extra inputs are not permitted"),
        (
            f"cluster_id: {CLUSTER_ID}\ntopics: [{TOPIC.replace('leader: 1', 'leader: 2')}]",
            "leader 2 must be in isr [1]",
        ),
        (f"cluster_id: {CLUSTER_ID}\ntopics: [{TOPIC.replace('isr: [1]', 'isr: [3]')}]", "isr [3] must be among"),
        (f"cluster_id: {CLUSTER_ID}\ntopics: [{TOPIC.replace('[1, 2]', '[1, 1]')}]", "name a broker twice"),
        (f"cluster_id: {CLUSTER_ID}\ntopics: [{TOPIC.replace('partition: 0', 'partition: 1')}]", "are numbered [1]"),
        (f"cluster_id: {CLUSTER_ID}\ntopics: [{TOPIC}, {TOPIC}]", "topic name 't' occurs twice"),
        (f"cluster_id: {CLUSTER_ID}\ntopics: [{TOPIC.replace('name: t', 'name: ../t')}]", "topics[0].name: topic name"),
    ],
)
def test_wrong_file_names_the_place(text: str, said: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        decode(text.encode())
    assert said in str(caught.value)
