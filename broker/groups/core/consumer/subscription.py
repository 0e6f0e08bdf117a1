"""What members of the classic protocol say and are given, with the ids of topics in place of their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .....protocol.wire import read_assignment as read_named
from .....protocol.wire import write_assignment
from .records import Assignment, normalized
from .topics import Topics

ASSIGNMENT_VERSION_MAX: Final = 3


def read_assignment(data: bytes, topics: Topics) -> Assignment | None:
    """Return an assignment, without topics that do not exist; None if it is none. Empty bytes assign nothing."""
    named = read_named(data)
    return None if named is None else by_id(named, topics)


def by_id(named: Mapping[str, frozenset[int]], topics: Topics) -> Assignment:
    """Return partitions by topic id, without topics that do not exist."""
    return normalized((topics[name].topic_id, numbers) for name, numbers in named.items() if name in topics)


def written_assignment(assignment: Assignment, topics: Topics, version: int) -> bytes:
    """Return an assignment in a version that the member reads."""
    named = {name: assignment[topic.topic_id] for name, topic in topics.items() if topic.topic_id in assignment}
    return write_assignment(named, max(0, min(version, ASSIGNMENT_VERSION_MAX)))
