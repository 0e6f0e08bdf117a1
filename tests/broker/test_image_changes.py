"""What an image makes a broker look at: what differs, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, TopicImage
from tierfetch.broker.core.image_changes import changed_partitions, changed_steps
from tierfetch.tests.broker.images import image, partition, topic

LED, FOLLOWED, ELSEWHERE = partition(1, (1, 2)), partition(2, (2, 1)), partition(2, (2, 3))
T = topic("t", LED, FOLLOWED, ELSEWHERE)
U = topic("u", LED, topic_id=501)
BEFORE = image(T, U)


def looked_at(after: ClusterImage, before: ClusterImage = BEFORE) -> dict[str, int | None]:
    """Partition -> its leader, None where it is gone."""
    return {
        f"{key.topic_partition}": None if registration is None else registration.leader
        for key, registration in changed_partitions(before, after, 1).items()
    }


def with_topics(*topics: TopicImage) -> ClusterImage:
    return replace(BEFORE, topics={each.name: each for each in topics})


def with_partition(number: int, registration: object) -> ClusterImage:
    return with_topics(replace(T, partitions={**T.partitions, number: registration}), U)  # type: ignore[dict-item]


def test_nothing_for_the_same() -> None:
    assert looked_at(BEFORE) == {}
    assert looked_at(image(topic("t", LED, FOLLOWED, ELSEWHERE), U)) == {}, "equal, although not the same value"


@pytest.mark.parametrize(
    ("number", "registration", "expected"),
    [
        (0, partition(2, (1, 2), leader_epoch=1, epoch=1), {"t-0": 2}),
        (0, partition(1, (1, 2), (1,), epoch=1), {"t-0": 1}),
        (0, partition(2, (2, 3), leader_epoch=1, epoch=1), {"t-0": None}),
        (2, partition(2, (2, 3, 1), (2, 3), epoch=1), {"t-2": 2}),
        (2, partition(3, (2, 3), leader_epoch=1, epoch=1), {}),
        (3, partition(1, (1,)), {"t-3": 1}),
        (3, partition(2, (2,)), {}),
    ],
)
def test_C4_one_partition(number: int, registration: object, expected: dict[str, int | None]) -> None:
    assert looked_at(with_partition(number, registration)) == expected


def test_C4_topics_come_and_go() -> None:
    assert looked_at(with_topics(T)) == {"u-0": None}
    assert looked_at(with_topics(T, U, topic("v", LED, topic_id=502))) == {"v-0": 1}
    grown = with_topics(replace(T, partitions={0: LED}), U)
    assert looked_at(grown) == {"t-1": None}


def test_another_incarnation_of_a_topic_is_gone_and_new() -> None:
    anew = replace(T, topic_id=UUID(int=900))
    changes = changed_partitions(BEFORE, with_topics(anew, U), 1)
    assert [(key.topic_id.int, key.partition, registration) for key, registration in changes.items()] == [
        (500, 0, None),
        (500, 1, None),
        (900, 0, LED),
        (900, 1, FOLLOWED),
    ]


def test_a_topics_configs_concern_all_its_partitions() -> None:
    assert looked_at(with_topics(replace(T, configs={"retention.ms": "1"}), U)) == {"t-0": 1, "t-1": 2}


def test_another_brokers_registration_concerns_what_this_one_leads_with_it() -> None:
    fenced = replace(BEFORE.brokers[2], fenced=True)
    assert looked_at(replace(BEFORE, brokers={**BEFORE.brokers, 2: fenced})) == {"t-0": 1, "u-0": 1}
    moved = BrokerRegistration(3, "elsewhere", 1)
    assert looked_at(replace(BEFORE, brokers={**BEFORE.brokers, 3: moved})) == {}


def test_dynamic_broker_configs_concern_all_that_is_hosted() -> None:
    after = replace(BEFORE, broker_configs={"default": {"log.retention.ms": "1"}})
    assert looked_at(after) == {"t-0": 1, "t-1": 2, "u-0": 1}
    assert looked_at(replace(BEFORE, broker_configs={})) == {}


def test_the_look_at_two_images_is_cut_into_steps() -> None:
    """Between two steps it has looked at so many partitions, or at one topic."""
    steps = changed_steps(BEFORE, with_topics(), 1, size=1)
    assert sum(1 for _ in steps) == len(BEFORE.topics)
