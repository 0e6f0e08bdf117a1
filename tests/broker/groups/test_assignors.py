"""G1: what every server-side assignor keeps to, for any members and topics."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.groups.core.consumer.assignors import ASSIGNORS, Subscription
from tierfetch.broker.groups.core.consumer.records import Assignment

IDS = [UUID(int=number + 1) for number in range(4)]
TOPICS = st.dictionaries(st.sampled_from(IDS), st.integers(1, 7), min_size=1)
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(6)]), st.frozensets(st.sampled_from(IDS)), min_size=1
)


def partitions(assignment: Assignment) -> list[tuple[UUID, int]]:
    return [(topic_id, number) for topic_id, numbers in assignment.items() for number in numbers]


def with_assigned(members: dict[str, Subscription], given: dict[str, Assignment]) -> dict[str, Subscription]:
    return {each: Subscription(member.topics, assigned=given.get(each, {})) for each, member in members.items()}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(topics=TOPICS, before=SUBSCRIPTIONS, after=SUBSCRIPTIONS)
def test_every_partition_goes_to_one_member_that_is_subscribed(
    name: str, topics: dict[UUID, int], before: dict[str, frozenset[UUID]], after: dict[str, frozenset[UUID]]
) -> None:
    assignor = ASSIGNORS[name]
    first = assignor.assign({each: Subscription(wanted) for each, wanted in before.items()}, topics)
    members = with_assigned({each: Subscription(wanted) for each, wanted in after.items()}, first)
    second = assignor.assign(members, topics)
    assert second.keys() == after.keys()
    counts = Counter(each for assignment in second.values() for each in partitions(assignment))
    subscribed = frozenset().union(*after.values())
    assert counts == {(topic, number): 1 for topic in topics if topic in subscribed for number in range(topics[topic])}
    for member_id, assignment in second.items():
        assert assignment.keys() <= after[member_id]
        assert all(assignment.values())


@given(topics=TOPICS, before=st.integers(1, 6), after=st.integers(1, 6))
def test_uniform_is_even_and_moves_only_what_it_must(topics: dict[UUID, int], before: int, after: int) -> None:
    uniform, wanted = ASSIGNORS["uniform"], frozenset(topics)
    first = uniform.assign({f"m{number}": Subscription(wanted) for number in range(before)}, topics)
    members = with_assigned({f"m{number}": Subscription(wanted) for number in range(after)}, first)
    second = uniform.assign(members, topics)
    sizes = [len(partitions(assignment)) for assignment in second.values()]
    assert max(sizes) - min(sizes) <= 1
    for member_id, assignment in second.items():
        had = set(partitions(first.get(member_id, {})))
        assert len(had & set(partitions(assignment))) == min(len(had), len(partitions(assignment)))
    assert uniform.assign(with_assigned(members, second), topics) == second


@given(st.integers(1, 40), st.integers(0, 3))
def test_uniform_evens_out_different_subscriptions(count: int, narrow: int) -> None:
    topics = {IDS[0]: count, IDS[1]: count}
    members = {f"n{number}": Subscription(frozenset({IDS[0]})) for number in range(narrow)}
    members |= {f"w{number}": Subscription(frozenset({IDS[0], IDS[1]})) for number in range(2)}
    sizes = {each: len(partitions(some)) for each, some in ASSIGNORS["uniform"].assign(members, topics).items()}
    for each, size in sizes.items():
        others = [sizes[other] for other in members if members[other].topics <= members[each].topics]
        assert size <= min(others) + 1 or each.startswith("w")
    assert abs(sizes["w0"] - sizes["w1"]) <= 1


def test_range_gives_neighbours_alike_in_equal_topics() -> None:
    members = {"b": Subscription(frozenset(IDS[:2])), "a": Subscription(frozenset(IDS[:2]), instance_id="z")}
    given = ASSIGNORS["range"].assign(members, {IDS[0]: 3, IDS[1]: 3})
    assert given == {
        "a": {IDS[0]: frozenset({0, 1}), IDS[1]: frozenset({0, 1})},
        "b": {IDS[0]: frozenset({2}), IDS[1]: frozenset({2})},
    }
