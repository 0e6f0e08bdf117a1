"""Reassignment of one partition as arithmetic on replica lists (KIP-455): how it begins, ends, and is taken back.

While one is under way `replicas` is the target followed by what is to be removed, `adding_replicas` are those of the
target that hold no copy yet, `removing_replicas` those that go at the end. It ends when all of `adding_replicas` are in
the ISR, within the very change that brings the last of them in.

A second reassignment replaces the first: what the first wanted to add and the second does not is dropped at once,
unless nothing else is in the ISR: then it is kept until the end, because a replica must have the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..image.registrations import PartitionRegistration


class ReplicaTarget(NamedTuple):
    """What the replica lists and the ISR shall be."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_unclean: bool = False
    """The ISR then holds a replica that was not in it."""


def begin(before: PartitionRegistration, target: Sequence[int]) -> ReplicaTarget:
    """The first step towards `target`."""
    original = [replica for replica in before.replicas if replica not in before.adding_replicas]
    abandoned = {replica for replica in before.adding_replicas if replica not in target}
    if abandoned and set(before.isr) <= abandoned:
        original = list(before.replicas)
        abandoned = set()
    removing = tuple(replica for replica in original if replica not in target)
    return ReplicaTarget(
        replicas=(*target, *removing),
        isr=tuple(replica for replica in before.isr if replica not in abandoned),
        adding=tuple(replica for replica in target if replica not in original),
        removing=removing,
    )


def complete(target: ReplicaTarget) -> ReplicaTarget | None:
    """The last step, or None if it is too early, or none is under way."""
    if not target.adding and not target.removing:
        return None
    isr = tuple(replica for replica in target.isr if replica not in target.removing)
    if not isr or not set(target.adding) <= set(isr):
        return None
    return ReplicaTarget(tuple(replica for replica in target.replicas if replica not in target.removing), isr)


def revert(before: PartitionRegistration) -> ReplicaTarget | None:
    """What was before the reassignment began; None if nothing would be left.

    If all of the ISR were being added, the first of the others must do, without its data being complete.
    """
    replicas = tuple(replica for replica in before.replicas if replica not in before.adding_replicas)
    isr = tuple(replica for replica in before.isr if replica not in before.adding_replicas)
    if not replicas:
        return None
    if not isr and before.isr:
        return ReplicaTarget(replicas, replicas[:1], is_unclean=True)
    return ReplicaTarget(replicas, isr)
