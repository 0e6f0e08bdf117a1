"""What must hold of the cluster's metadata after every batch of its log. Pure: images and changes in, violations out.

| invariant             | violated when                                                                              |
|-----------------------|--------------------------------------------------------------------------------------------|
| leader in the ISR     | a leader is no member of the ISR, or not active (fenced, or about to leave)                |
| ISR of the replicas   | the ISR, or what a reassignment adds or removes, is not among the replicas; one is twice   |
| live ISR              | a member that is not active is in an ISR with others: only a last member may be down       |
| monotonic epoch       | the partition epoch does not rise by one with each change; another leader, or a replica    |
|                       | that is taken off the list, without a new leader epoch                                     |
| whole reassignment    | a replica appears that was not being added; a reassignment ends before its new replicas    |
|                       | are in sync                                                                                |
| true index            | the indexes say something else than the registrations                                      |
"""

from __future__ import annotations

from ....controller import NO_LEADER, MetadataImage, PartitionKey, PartitionRegistration
from .partition import InvariantViolationError


def check_image(image: MetadataImage) -> None:
    """The rows about one image. InvariantViolationError."""
    in_isr: dict[int, set[PartitionKey]] = {}
    for topic_id, topic in image.topics.items():
        _demand(image.topic_ids.get(topic.name) == topic_id, "true index", topic.name)
        for number, registration in topic.partitions.items():
            key = PartitionKey(topic_id, number)
            _check_registration(image, key, registration)
            for broker_id in registration.isr:
                in_isr.setdefault(broker_id, set()).add(key)
    _check_indexes(image, in_isr)


def _check_registration(image: MetadataImage, key: PartitionKey, now: PartitionRegistration) -> None:
    where = f"{image.name(key)}: {now}"
    replicas, isr = set(now.replicas), set(now.isr)
    has_leader = now.leader != NO_LEADER
    _demand(not has_leader or (now.leader in isr and image.is_active(now.leader)), "leader in the ISR", where)
    _demand(isr | set(now.adding_replicas) | set(now.removing_replicas) <= replicas, "ISR of the replicas", where)
    is_once = len(replicas) == len(now.replicas) == len(now.directories) and len(isr) == len(now.isr)
    _demand(is_once and not set(now.adding_replicas) & set(now.removing_replicas), "ISR of the replicas", where)
    _demand(len(isr) < 2 or all(map(image.is_active, isr)), "live ISR", where)


def _check_indexes(image: MetadataImage, in_isr: dict[int, set[PartitionKey]]) -> None:
    indexed = image.indexes.as_sets()
    every = [
        (PartitionKey(topic_id, number), now)
        for topic_id, topic in image.topics.items()
        for number, now in topic.partitions.items()
    ]
    wanted = {
        "leaderless": {key for key, now in every if now.leader == NO_LEADER},
        "reassigning": {key for key, now in every if now.is_reassigning},
        "not_preferred": {key for key, now in every if now.leader != now.preferred_leader},
        "in_isr": in_isr,
    }
    for name, right in wanted.items():
        _demand(indexed[name] == right, "true index", f"{name} is {indexed[name]}, the registrations say {right}")


def check_change(name: str, before: PartitionRegistration, now: PartitionRegistration) -> None:
    """The rows about one record of a partition: from one registration to the next. InvariantViolationError."""
    where = f"{name}: {before} -> {now}"
    _demand(now.partition_epoch == before.partition_epoch + 1, "monotonic epoch", where)
    must_rise = now.leader != before.leader or not set(before.replicas) <= set(now.replicas)
    rise = now.leader_epoch - before.leader_epoch
    _demand(rise == 1 or (rise == 0 and not must_rise), "monotonic epoch", where)
    _demand(set(now.replicas) - set(before.replicas) <= set(now.adding_replicas), "whole reassignment", where)
    if before.is_reassigning and not now.is_reassigning:
        kept = set(before.adding_replicas) & set(now.replicas)
        _demand(kept <= set(now.isr), "whole reassignment", where)


def _demand(holds: bool, invariant: str, detail: str) -> None:
    if not holds:
        raise InvariantViolationError(invariant, detail)
