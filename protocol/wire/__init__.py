"""Bytes of Kafka's protocol to values and back. Pure.

primitives         reads and writes the primitive types.
varint             reads and writes variable-length integers.
framing            cuts a stream of bytes into frames.
message_codec      reads and writes message classes in any version.
steps              reads and writes message classes in steps, for messages that may be large.
stepping           declares what steps are, and runs them to their end.
schema             holds kio's schema of one version of a message, field by field.
produce            reads and writes Produce, versions 3-13, as one version-independent value each.
leader_hints       writes the current leader into Produce and Fetch responses (KIP-951).
config_resources   numbers the config resources and sources of DescribeConfigs.
group_configs      names the configs of groups, and checks their values.
consumer_protocol  reads and writes what members of the classic protocol say, and are given.

Other folders import what is exported here. It is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .config_resources import (
        ConfigSource,
        ConfigSynonym,
        ConfigType,
        DescribedConfig,
        ResourceType,
        describe_configs_response,
    )
    from .consumer_protocol import (
        OWNED_SINCE,
        ClassicSubscription,
        read_assignment,
        read_subscription,
        write_assignment,
        write_subscription,
    )
    from .framing import SIZE_BYTES
    from .group_configs import (
        ASSIGNMENT_INTERVAL_MAX_MS,
        BY_DURATION,
        DELIVERY_LIMIT,
        EARLIEST,
        GROUP_ASSIGNMENT_INTERVAL,
        GROUP_CONFIGS,
        GROUP_HEARTBEAT_INTERVAL,
        GROUP_NUMBERS,
        GROUP_SESSION_TIMEOUT,
        ISOLATION,
        LATEST,
        LOCK_DURATION,
        OFFSET_RESET,
        READ_COMMITTED_GROUP,
        RECORD_LOCKS,
        RENEW_ENABLE,
        SHARE_ASSIGNMENT_INTERVAL,
        SHARE_HEARTBEAT_INTERVAL,
        SHARE_SESSION_TIMEOUT,
        check_group_config,
        reset_before_ms,
    )
    from .leader_hints import LeaderIdAndEpoch, NodeEndpoint
    from .primitives import BUFFER_TYPES, ZERO_UUID, MalformedMessageError, Part, Reader, Writer, part_size, uuid_of
    from .produce import (
        ACKS_ALL,
        ACKS_LEADER,
        ACKS_NONE,
        ProducePartition,
        ProducePartitionResponse,
        ProduceRequest,
        ProduceResponse,
        ProduceTopic,
        ProduceTopicResponse,
    )
    from .stepping import Steps, run_to_end
    from .varint import read_uvarint, read_varint, write_uvarint

__all__ = [
    "ACKS_ALL",
    "ACKS_LEADER",
    "ACKS_NONE",
    "ASSIGNMENT_INTERVAL_MAX_MS",
    "BUFFER_TYPES",
    "BY_DURATION",
    "DELIVERY_LIMIT",
    "EARLIEST",
    "GROUP_ASSIGNMENT_INTERVAL",
    "GROUP_CONFIGS",
    "GROUP_HEARTBEAT_INTERVAL",
    "GROUP_NUMBERS",
    "GROUP_SESSION_TIMEOUT",
    "ISOLATION",
    "LATEST",
    "LOCK_DURATION",
    "OFFSET_RESET",
    "OWNED_SINCE",
    "READ_COMMITTED_GROUP",
    "RECORD_LOCKS",
    "RENEW_ENABLE",
    "SHARE_ASSIGNMENT_INTERVAL",
    "SHARE_HEARTBEAT_INTERVAL",
    "SHARE_SESSION_TIMEOUT",
    "SIZE_BYTES",
    "ZERO_UUID",
    "ClassicSubscription",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "DescribedConfig",
    "LeaderIdAndEpoch",
    "MalformedMessageError",
    "NodeEndpoint",
    "Part",
    "ProducePartition",
    "ProducePartitionResponse",
    "ProduceRequest",
    "ProduceResponse",
    "ProduceTopic",
    "ProduceTopicResponse",
    "Reader",
    "ResourceType",
    "Steps",
    "Writer",
    "check_group_config",
    "describe_configs_response",
    "part_size",
    "read_assignment",
    "read_subscription",
    "read_uvarint",
    "read_varint",
    "reset_before_ms",
    "run_to_end",
    "uuid_of",
    "write_assignment",
    "write_subscription",
    "write_uvarint",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "ACKS_ALL": "produce",
            "ACKS_LEADER": "produce",
            "ACKS_NONE": "produce",
            "ASSIGNMENT_INTERVAL_MAX_MS": "group_configs",
            "BUFFER_TYPES": "primitives",
            "BY_DURATION": "group_configs",
            "DELIVERY_LIMIT": "group_configs",
            "EARLIEST": "group_configs",
            "GROUP_ASSIGNMENT_INTERVAL": "group_configs",
            "GROUP_CONFIGS": "group_configs",
            "GROUP_HEARTBEAT_INTERVAL": "group_configs",
            "GROUP_NUMBERS": "group_configs",
            "GROUP_SESSION_TIMEOUT": "group_configs",
            "ISOLATION": "group_configs",
            "LATEST": "group_configs",
            "LOCK_DURATION": "group_configs",
            "OFFSET_RESET": "group_configs",
            "OWNED_SINCE": "consumer_protocol",
            "READ_COMMITTED_GROUP": "group_configs",
            "RECORD_LOCKS": "group_configs",
            "RENEW_ENABLE": "group_configs",
            "SHARE_ASSIGNMENT_INTERVAL": "group_configs",
            "SHARE_HEARTBEAT_INTERVAL": "group_configs",
            "SHARE_SESSION_TIMEOUT": "group_configs",
            "SIZE_BYTES": "framing",
            "ZERO_UUID": "primitives",
            "ClassicSubscription": "consumer_protocol",
            "ConfigSource": "config_resources",
            "ConfigSynonym": "config_resources",
            "ConfigType": "config_resources",
            "DescribedConfig": "config_resources",
            "LeaderIdAndEpoch": "leader_hints",
            "MalformedMessageError": "primitives",
            "NodeEndpoint": "leader_hints",
            "Part": "primitives",
            "ProducePartition": "produce",
            "ProducePartitionResponse": "produce",
            "ProduceRequest": "produce",
            "ProduceResponse": "produce",
            "ProduceTopic": "produce",
            "ProduceTopicResponse": "produce",
            "Reader": "primitives",
            "ResourceType": "config_resources",
            "Steps": "stepping",
            "Writer": "primitives",
            "check_group_config": "group_configs",
            "describe_configs_response": "config_resources",
            "part_size": "primitives",
            "read_assignment": "consumer_protocol",
            "read_subscription": "consumer_protocol",
            "read_uvarint": "varint",
            "read_varint": "varint",
            "reset_before_ms": "group_configs",
            "run_to_end": "stepping",
            "uuid_of": "primitives",
            "write_assignment": "consumer_protocol",
            "write_subscription": "consumer_protocol",
            "write_uvarint": "varint",
        },
    )
