"""How many array elements a request may have, by what its API can mean.

| requests | limit | because |
|---|---|---|
| about partitions: Fetch, Produce, ListOffsets, AlterPartition, ... | 200,000 | a broker's partitions |
| about topics, groups, configurations | 50,000 | a cluster's topics, the members of a group |
| about users, ACLs and quotas | 2,000 | what an administrator names at once |
| of the quorum and of a session: Vote, ApiVersions, Heartbeat, ... | 1,000 | one partition, some features |

A request with more closes its connection. What is within the limit is read, handled and answered in slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .api import ApiKey

REQUEST_ELEMENTS_MAX: Final = 50_000
PARTITION_ELEMENTS_MAX: Final = 200_000
ADMINISTRATION_ELEMENTS_MAX: Final = 2_000
SMALL_ELEMENTS_MAX: Final = 1_000

_PARTITIONS: Final = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.ELECT_LEADERS,
    ApiKey.FETCH,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.LIST_OFFSETS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.PRODUCE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.WRITE_TXN_MARKERS,
)
_ADMINISTRATION: Final = (
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)
_SMALL: Final = (
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.API_VERSIONS,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.END_TXN,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.HEARTBEAT,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.JOIN_GROUP,
    ApiKey.LIST_GROUPS,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.VOTE,
)

ELEMENTS_MAX_OF: Final[Mapping[ApiKey, int]] = {
    **dict.fromkeys(_PARTITIONS, PARTITION_ELEMENTS_MAX),
    **dict.fromkeys(_ADMINISTRATION, ADMINISTRATION_ELEMENTS_MAX),
    **dict.fromkeys(_SMALL, SMALL_ELEMENTS_MAX),
}
"""The limits of the APIs that differ from `REQUEST_ELEMENTS_MAX`."""
