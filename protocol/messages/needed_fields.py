"""The request fields that an older version must not leave out: Kafka's schemas do not call them ignorable.

A field that an older version lacks is left out silently only where its schema says `"ignorable": true`. Without one of
these the peer would do something other than what was requested: create a topic on a look-up, or hold a preferred
election in place of an unclean one. Fields of our own (`extensions`) may always be left out.

Fields that changed their shape are checked where they are converted (`versions`). A pre-vote is the quorum's to check
(`quorum.wire.messages.min_version`), because the field is inside an array. `ack_when_committed` of AddRaftVoter is not
here, although Kafka needs it: an older leader acknowledges a voter later, which a voter that joins can wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Final, NamedTuple

from ..errors import ErrorCode, KafkaError
from .base import Message
from .brokers import BrokerHeartbeatRequest, BrokerRegistrationRequest
from .cluster import DescribeClusterRequest, MetadataRequest, UpdateFeaturesRequest
from .configs import DescribeConfigsRequest
from .groups import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from .offsets import ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest
from .producers import InitProducerIdRequest
from .topics import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from .transactions import AddPartitionsToTxnRequest, ListTransactionsRequest, TxnOffsetCommitRequest

NEEDED_SINCE: Final[Mapping[type[Message], Mapping[str, int]]] = {
    AddPartitionsToTxnRequest: {"transactions": 4},
    AlterPartitionReassignmentsRequest: {"allow_replication_factor_change": 1},
    BrokerHeartbeatRequest: {"offline_log_dirs": 1, "cordoned_log_dirs": 2},
    BrokerRegistrationRequest: {"is_migrating_zk_broker": 1},
    DescribeClusterRequest: {"endpoint_type": 1, "include_fenced_brokers": 2},
    DescribeConfigsRequest: {"include_documentation": 3},
    DescribeGroupsRequest: {"include_authorized_operations": 3},
    ElectLeadersRequest: {"election_type": 1},
    FindCoordinatorRequest: {"key_type": 1},
    HeartbeatRequest: {"group_instance_id": 3},
    InitProducerIdRequest: {"producer_id": 3, "producer_epoch": 3},
    JoinGroupRequest: {"group_instance_id": 5},
    ListGroupsRequest: {"states_filter": 4, "types_filter": 5},
    ListOffsetsRequest: {"isolation_level": 2},
    ListTransactionsRequest: {"duration_filter": 1, "transactional_id_pattern": 2},
    MetadataRequest: {
        "allow_auto_topic_creation": 4,
        "include_cluster_authorized_operations": 8,
        "include_topic_authorized_operations": 8,
    },
    OffsetCommitRequest: {"group_instance_id": 7},
    OffsetFetchRequest: {"require_stable": 7},
    SyncGroupRequest: {"group_instance_id": 3},
    TxnOffsetCommitRequest: {"generation_id": 3, "member_id": 3, "group_instance_id": 3},
    UpdateFeaturesRequest: {"validate_only": 1},
}
"""The first version that has the field."""


class _Needed(NamedTuple):
    name: str
    since: int
    get: Callable[[object], object]
    default: object


def _with_defaults(cls: type[Message], since: Mapping[str, int]) -> tuple[_Needed, ...]:
    defaults = {item.name: item.default for item in fields(cls)}
    return tuple(_Needed(name, version, attrgetter(name), defaults[name]) for name, version in since.items())


_NEEDED: Final[Mapping[type[object], tuple[_Needed, ...]]] = {
    cls: _with_defaults(cls, since) for cls, since in NEEDED_SINCE.items()
}


def check_expressible(message: object, version: int) -> None:
    """KafkaError UNSUPPORTED_VERSION if this version would lose a field that the request needs."""
    for field in _NEEDED.get(type(message), ()):
        if version < field.since and field.get(message) != field.default:
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"{type(message).__name__} version {version} has no {field.name}, which came with {field.since}",
            )
