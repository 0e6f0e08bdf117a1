"""Lets share-partitions begin: a share coordinator keeps the state of each, which has to be initialized first.

    uninitialized --begin--> initializing --share coordinator--> initialized --assigned--> read
                                |  ^                                  |
                         failed +--+ asked again                      +-- deleting --share coordinator--> uninitialized

What is about to be done is durable before it is done, so a deletion of the group finds all that there may be. What is
initialized is not initialized again, unless an operator resets its offsets: that forgets what was delivered. So does a
deletion, which is ended before anything of its topic is initialized: share coordinators keep the state that they have,
unless they are given an offset.

Requests to share coordinators carry the group's epoch, which rises at the end of a deletion: what is asked after it
counts, what was asked before and comes late does not. A new group begins at epoch 0 again. What its share coordinators
still know of one of the same name may have a higher epoch, and fences it: `above` lifts the group over that, durably,
before it asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from ..consumer.records import GroupEpoch
from .heartbeat import ShareDecision
from .records import ShareKind, Starts, TopicStarts

EPOCH_MAX: Final = 2**31 - 1
Topics = Mapping[UUID, TopicStarts]
ShareState = tuple[UUID, int]
"""A share-partition of the group."""


def put_starts(decision: ShareDecision, starts: Starts) -> None:
    """Decide what is initialized; no record without a change, a tombstone for nothing."""
    group = decision.group
    if starts != group.starts:
        decision.put_record(group.record(ShareKind.STARTS, "", None if starts.is_empty else starts))


def begin(decision: ShareDecision, topics: Topics) -> None:
    """Note share-partitions that are about to be initialized, or again. Nothing of their topics is being deleted."""
    starts = decision.group.starts
    put_starts(
        decision,
        Starts(
            initializing=_united(starts.initializing, topics),
            initialized=starts.initialized,
            deleting=starts.deleting,
        ),
    )


def end(decision: ShareDecision, topics: Topics, done: Iterable[ShareState]) -> None:
    """Note what became of it: those that are `done` may be assigned. Whether the others have begun is not known, so
    they stay as they are: they are asked for again, and a deletion finds them.
    """
    starts = decision.group.starts
    by_topic: dict[UUID, set[int]] = {}
    for topic_id, number in done:
        by_topic.setdefault(topic_id, set()).add(number)
    initialized = {
        topic_id: TopicStarts(topics[topic_id].name, frozenset(numbers)) for topic_id, numbers in by_topic.items()
    }
    put_starts(
        decision,
        Starts(
            initializing=_without(starts.initializing, initialized),
            initialized=_united(starts.initialized, initialized),
            deleting=starts.deleting,
        ),
    )


def begin_deletion(decision: ShareDecision, topic_ids: Iterable[UUID]) -> Topics:
    """Note topics whose state is about to be deleted; return all that there may be of them."""
    starts, wanted = decision.group.starts, frozenset(topic_ids)
    held = {
        topic_id: topic
        for topic_id, topic in _united(starts.initializing, starts.initialized).items()
        if topic_id in wanted
    }
    put_starts(
        decision,
        Starts(
            initializing=_without_topics(starts.initializing, wanted),
            initialized=_without_topics(starts.initialized, wanted),
            deleting={**starts.deleting, **{topic_id: topic.name for topic_id, topic in held.items()}},
        ),
    )
    return held


def end_deletion(decision: ShareDecision, topic_ids: Iterable[UUID]) -> None:
    """Note topics whose state is deleted; what is asked of them from then on is of another epoch."""
    starts, gone = decision.group.starts, frozenset(topic_ids)
    if gone & starts.deleting.keys():
        above(decision, decision.group.epoch)
    put_starts(
        decision,
        Starts(
            initializing=starts.initializing,
            initialized=starts.initialized,
            deleting={topic_id: name for topic_id, name in starts.deleting.items() if topic_id not in gone},
        ),
    )


def above(decision: ShareDecision, epoch: int) -> None:
    """Lift the group's epoch above one that share coordinators have seen."""
    group = decision.group
    lifted = min(max(group.epoch, epoch) + 1, EPOCH_MAX)
    if lifted != group.epoch:
        decision.put_record(group.record(ShareKind.GROUP, "", GroupEpoch(lifted, group.metadata_hash)))


def forget_topics(decision: ShareDecision, topic_ids: Iterable[UUID]) -> None:
    """Forget topics that are deleted: share coordinators do so by themselves."""
    starts, gone = decision.group.starts, frozenset(topic_ids)
    put_starts(
        decision,
        Starts(
            initializing=_without_topics(starts.initializing, gone),
            initialized=_without_topics(starts.initialized, gone),
            deleting={topic_id: name for topic_id, name in starts.deleting.items() if topic_id not in gone},
        ),
    )


def _united(topics: Topics, more: Topics) -> dict[UUID, TopicStarts]:
    united = dict(topics)
    for topic_id, topic in more.items():
        known = united.get(topic_id)
        united[topic_id] = topic if known is None else TopicStarts(topic.name, known.partitions | topic.partitions)
    return united


def _without(topics: Topics, less: Topics) -> dict[UUID, TopicStarts]:
    left = {}
    for topic_id, topic in topics.items():
        numbers = topic.partitions - (less[topic_id].partitions if topic_id in less else frozenset())
        if numbers:
            left[topic_id] = TopicStarts(topic.name, numbers)
    return left


def _without_topics(topics: Topics, gone: frozenset[UUID]) -> dict[UUID, TopicStarts]:
    return {topic_id: topic for topic_id, topic in topics.items() if topic_id not in gone}
