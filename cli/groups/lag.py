"""Pairs what a group has committed with where its partitions end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from ...protocol import ErrorCode, TopicPartition
from ...protocol.messages.groups import DescribedGroupMember, DescribeGroupsResponseDescribedGroup
from ...protocol.messages.offsets import ListOffsetsPartitionResponse
from ...protocol.wire import read_assignment


class LagRow(TypedDict):
    """A partition of a group; None where nothing was committed, where there is no leader, or no member has it."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None
    client: str | None
    host: str | None


def lag_rows(
    group: DescribeGroupsResponseDescribedGroup,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, ListOffsetsPartitionResponse],
) -> list[LagRow]:
    """Return a row for each partition that the group has committed, or that a member is assigned."""
    members = {partition: member for member in group.members for partition in assigned(member.member_assignment)}
    return [
        _row(partition, committed.get(partition), _end(ends.get(partition)), members.get(partition))
        for partition in sorted(committed.keys() | members.keys())
    ]


def total_lag(rows: list[LagRow]) -> int | None:
    """Return the records that the group has still to read, None if that is not known of any partition."""
    known = [row["lag"] for row in rows if row["lag"] is not None]
    return sum(known) if known else None


def assigned(assignment: bytes) -> list[TopicPartition]:
    """Return what a ConsumerProtocolAssignment of any version names; nothing if it is something else."""
    named = read_assignment(assignment) or {}
    return [TopicPartition(topic, number) for topic, numbers in named.items() for number in sorted(numbers)]


def _row(
    partition: TopicPartition, committed: int | None, end: int | None, member: DescribedGroupMember | None
) -> LagRow:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": committed,
        "end": end,
        # A group may have committed more than a leader knows to be committed just now.
        "lag": None if committed is None or end is None else max(0, end - committed),
        "member": None if member is None else member.member_id,
        "client": None if member is None else member.client_id,
        "host": None if member is None else member.client_host,
    }


def _end(answer: ListOffsetsPartitionResponse | None) -> int | None:
    return answer.offset if answer is not None and answer.error_code is ErrorCode.none and answer.offset >= 0 else None
