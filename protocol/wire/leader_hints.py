"""The current leaders, as Produce and Fetch responses carry them in tagged fields (KIP-951).

A partition's error NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH carries the leader's id and epoch, and the response as
a whole the endpoints of the leaders so named: a client needs no Metadata request to continue.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from .primitives import Reader, Writer

_LEADER = struct.Struct(">ii")
_NO_LEADER: Final = (-1, -1)
_NODE_ENDPOINTS_TAG: Final = 0


class LeaderIdAndEpoch(NamedTuple):
    """-1 for a leader or an epoch that is not known; both -1 is the same as no hint."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where a node listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def read_leader(tags: Mapping[int, Reader], tag: int) -> LeaderIdAndEpoch | None:
    if tag not in tags:
        return None
    leader = LeaderIdAndEpoch(*tags[tag].unpack(_LEADER))
    return None if leader == _NO_LEADER else leader


def leader_field(leader: LeaderIdAndEpoch | None) -> bytes | None:
    """Return the content of the tagged field, None where it is left out."""
    return None if leader is None or leader == _NO_LEADER else _LEADER.pack(*leader) + b"\0"


def read_node_endpoints(tags: Mapping[int, Reader]) -> tuple[NodeEndpoint, ...]:
    if _NODE_ENDPOINTS_TAG not in tags:
        return ()
    reader = tags[_NODE_ENDPOINTS_TAG]
    endpoints = []
    for _ in range(reader.array_length()):
        endpoints.append(NodeEndpoint(reader.int32(), reader.string(), reader.int32(), reader.nullable_string()))
        reader.tagged_fields()
    return tuple(endpoints)


def end_with_endpoints(writer: Writer, endpoints: tuple[NodeEndpoint, ...]) -> None:
    """Write the end of a response, with the tagged field of the endpoints if there are any."""
    writer.end_structure({_NODE_ENDPOINTS_TAG: _endpoints_field(endpoints)} if endpoints else {})


def _endpoints_field(endpoints: tuple[NodeEndpoint, ...]) -> bytes:
    writer = Writer(flexible=True)
    writer.array_length(len(endpoints))
    for endpoint in endpoints:
        writer.int32(endpoint.node_id)
        writer.string(endpoint.host)
        writer.int32(endpoint.port)
        writer.string(endpoint.rack)
        writer.end_structure()
    return bytes(writer.out)
