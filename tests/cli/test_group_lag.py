"""What `groups lag` and `groups describe` make of the answers of a cluster."""

from __future__ import annotations

import struct

import pytest

from tierfetch.cli.groups.lag import assigned, lag_rows, total_lag
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.groups import DescribedGroupMember, DescribeGroupsResponseDescribedGroup
from tierfetch.protocol.messages.offsets import ListOffsetsPartitionResponse
from tierfetch.protocol.topics import TopicPartition

ASSIGNMENT = struct.pack(">hih6siiii", 3, 1, 6, b"orders", 2, 0, 1, -1)
"""Version 3: orders-0 and orders-1, no user data."""
A, B, C = (TopicPartition("orders", number) for number in range(3))


def group(assignment: bytes = ASSIGNMENT) -> DescribeGroupsResponseDescribedGroup:
    member = DescribedGroupMember(
        member_id="m-1", client_id="app", client_host="/10.0.0.1", member_metadata=b"", member_assignment=assignment
    )
    return DescribeGroupsResponseDescribedGroup(
        group_id="billing", group_state="Stable", protocol_type="consumer", protocol_data="range", members=(member,)
    )


def end(offset: int, error: ErrorCode = ErrorCode.none) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=error)


def test_an_assignment() -> None:
    assert assigned(ASSIGNMENT) == [A, B]


@pytest.mark.parametrize("assignment", [b"", b"\0", b"no consumer's", ASSIGNMENT[:-10], b"\0\0\x7f\xff\xff\xff"])
def test_what_is_no_assignment_is_none(assignment: bytes) -> None:
    assert assigned(assignment) == []


def test_lag() -> None:
    ends = {A: end(130), B: end(40), C: end(-1, ErrorCode.not_leader_or_follower)}
    rows = lag_rows(group(), {A: 100, C: 7}, ends)
    assert [(row["partition"], row["committed"], row["end"], row["lag"], row["member"]) for row in rows] == [
        (0, 100, 130, 30, "m-1"),
        (1, None, 40, None, "m-1"),
        (2, 7, None, None, None),
    ]
    assert total_lag(rows) == 30


def test_lag_is_never_negative() -> None:
    assert [row["lag"] for row in lag_rows(group(b""), {A: 100}, {A: end(90)})] == [0]


def test_no_lag_is_known_of_a_group_that_committed_nothing() -> None:
    assert total_lag(lag_rows(group(), {}, {A: end(1), B: end(2)})) is None
