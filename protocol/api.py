"""The table of APIs: key, versions, and from which version on an API is flexible (KIP-482).

One line adds an API; kio has the schema of each version and is asked for it at first use only, because importing all
schemas takes seconds. Ranges are those of Apache Kafka 4.3, except that unstable versions are left out, and
version 0 of SaslHandshake, after which tokens would come without headers (KIP-152).

    ApiKey(3) is ApiKey.METADATA
    ApiKey.METADATA.min_version, .max_version, .supports(12), .is_flexible(12)
    ApiKey.METADATA.request_type(12)      # the class kio.schema.metadata.v12.request.MetadataRequest

Headers: a flexible version takes request header v2 and response header v1, others v1 and v0. The response of
ApiVersions has header v0 in every version: its reader does not know yet what the server speaks (KIP-511).
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.static.protocol import Payload

from .extensions import extended_request, extended_response


class VersionRange(NamedTuple):
    """Both ends inclusive."""

    min_version: int
    max_version: int

    def newest_common(self, other: VersionRange) -> int | None:
        """The newest version that both ranges hold."""
        newest = min(self.max_version, other.max_version)
        return newest if newest >= max(self.min_version, other.min_version) else None


class ApiKey(IntEnum):
    """NAME = key, oldest version, newest version, first flexible version."""

    min_version: int
    max_version: int
    flexible_version: int

    if not TYPE_CHECKING:  # a type checker would take the four values for the value of the member

        def __new__(cls, key: int, min_version: int, max_version: int, flexible_version: int) -> ApiKey:
            member = int.__new__(cls, key)
            member._value_ = key
            member.min_version = min_version
            member.max_version = max_version
            member.flexible_version = flexible_version
            return member

    PRODUCE = 0, 3, 13, 9
    FETCH = 1, 4, 18, 12
    LIST_OFFSETS = 2, 1, 11, 6
    METADATA = 3, 0, 13, 9
    OFFSET_COMMIT = 8, 2, 10, 8
    OFFSET_FETCH = 9, 1, 10, 6
    FIND_COORDINATOR = 10, 0, 6, 3
    JOIN_GROUP = 11, 0, 9, 6
    HEARTBEAT = 12, 0, 4, 4
    LEAVE_GROUP = 13, 0, 5, 4
    SYNC_GROUP = 14, 0, 5, 4
    DESCRIBE_GROUPS = 15, 0, 6, 5
    LIST_GROUPS = 16, 0, 5, 3
    SASL_HANDSHAKE = 17, 1, 1, 2
    API_VERSIONS = 18, 0, 4, 3
    CREATE_TOPICS = 19, 2, 7, 5
    DELETE_TOPICS = 20, 1, 6, 4
    DELETE_RECORDS = 21, 0, 2, 2
    INIT_PRODUCER_ID = 22, 0, 5, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 2, 4, 4
    ADD_PARTITIONS_TO_TXN = 24, 0, 5, 3
    ADD_OFFSETS_TO_TXN = 25, 0, 4, 3
    END_TXN = 26, 0, 5, 3
    WRITE_TXN_MARKERS = 27, 1, 2, 1
    TXN_OFFSET_COMMIT = 28, 0, 5, 3
    DESCRIBE_ACLS = 29, 1, 3, 2
    CREATE_ACLS = 30, 1, 3, 2
    DELETE_ACLS = 31, 1, 3, 2
    DESCRIBE_CONFIGS = 32, 1, 4, 4
    ALTER_CONFIGS = 33, 0, 2, 2
    ALTER_REPLICA_LOG_DIRS = 34, 1, 2, 2
    DESCRIBE_LOG_DIRS = 35, 1, 5, 2
    SASL_AUTHENTICATE = 36, 0, 2, 2
    CREATE_PARTITIONS = 37, 0, 3, 2
    DELETE_GROUPS = 42, 0, 2, 2
    ELECT_LEADERS = 43, 0, 2, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 1, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0, 0
    DESCRIBE_CLIENT_QUOTAS = 48, 0, 1, 1
    ALTER_CLIENT_QUOTAS = 49, 0, 1, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0, 0
    VOTE = 52, 0, 2, 0
    BEGIN_QUORUM_EPOCH = 53, 0, 1, 1
    END_QUORUM_EPOCH = 54, 0, 1, 1
    DESCRIBE_QUORUM = 55, 0, 2, 0
    ALTER_PARTITION = 56, 2, 3, 0
    UPDATE_FEATURES = 57, 0, 2, 0
    ENVELOPE = 58, 0, 0, 0
    FETCH_SNAPSHOT = 59, 0, 1, 0
    OFFSET_DELETE = 47, 0, 0, 1
    DESCRIBE_CLUSTER = 60, 0, 2, 0
    DESCRIBE_PRODUCERS = 61, 0, 0, 0
    BROKER_REGISTRATION = 62, 0, 4, 0
    BROKER_HEARTBEAT = 63, 0, 2, 0
    UNREGISTER_BROKER = 64, 0, 0, 0
    DESCRIBE_TRANSACTIONS = 65, 0, 0, 0
    LIST_TRANSACTIONS = 66, 0, 2, 0
    ALLOCATE_PRODUCER_IDS = 67, 0, 0, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0, 1, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0, 1, 0
    CONTROLLER_REGISTRATION = 70, 0, 0, 0
    ASSIGN_REPLICAS_TO_DIRS = 73, 0, 0, 0
    SHARE_GROUP_HEARTBEAT = 76, 1, 1, 0
    SHARE_GROUP_DESCRIBE = 77, 1, 1, 0
    SHARE_FETCH = 78, 1, 2, 0
    SHARE_ACKNOWLEDGE = 79, 1, 2, 0
    ADD_RAFT_VOTER = 80, 0, 1, 0
    REMOVE_RAFT_VOTER = 81, 0, 0, 0
    UPDATE_RAFT_VOTER = 82, 0, 0, 0
    INITIALIZE_SHARE_GROUP_STATE = 83, 0, 0, 0
    READ_SHARE_GROUP_STATE = 84, 0, 0, 0
    WRITE_SHARE_GROUP_STATE = 85, 0, 1, 0
    DELETE_SHARE_GROUP_STATE = 86, 0, 0, 0
    READ_SHARE_GROUP_STATE_SUMMARY = 87, 0, 1, 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 0, 1, 0
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, 0, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, 0, 0

    @property
    def versions(self) -> VersionRange:
        return VersionRange(self.min_version, self.max_version)

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Whether the request has header v2 and bodies end with tagged fields."""
        return version >= self.flexible_version

    def has_flexible_response_header(self, version: int) -> bool:
        return self.is_flexible(version) and self is not ApiKey.API_VERSIONS

    def request_type(self, version: int) -> type[Payload]:
        """kio's class of this version's request, with our tagged fields (`extensions`); imports its module."""
        return _request_type(int(self), version)

    def response_type(self, version: int) -> type[Payload]:
        """kio's class of this version's response, with our tagged fields; imports its module."""
        return _response_type(int(self), version)


@cache
def _request_type(key: int, version: int) -> type[Payload]:
    return extended_request(load_request_schema(key, version))


@cache
def _response_type(key: int, version: int) -> type[Payload]:
    return extended_response(load_response_schema(key, version))
