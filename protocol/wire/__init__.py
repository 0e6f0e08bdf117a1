"""Bytes of Kafka's protocol to values and back. Pure.

primitives        reads and writes the primitive types.
varint            reads and writes variable-length integers.
framing           cuts a stream of bytes into frames.
message_codec     reads and writes message classes in any version.
steps             reads and writes message classes in steps, for messages that may be large.
stepping          declares what steps are, and runs them to their end.
schema            holds kio's schema of one version of a message, field by field.
produce           reads and writes Produce, versions 3-13, as one version-independent value each.
leader_hints      writes the current leader into Produce and Fetch responses (KIP-951).
config_resources  numbers the config resources and sources of DescribeConfigs.

Other folders import what is exported here. It is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .config_resources import (
        GROUP_CONFIGS,
        GROUP_HEARTBEAT_INTERVAL,
        GROUP_SESSION_TIMEOUT,
        SHARE_HEARTBEAT_INTERVAL,
        SHARE_SESSION_TIMEOUT,
        ConfigSource,
        ConfigSynonym,
        ConfigType,
        DescribedConfig,
        ResourceType,
        describe_configs_response,
    )
    from .framing import SIZE_BYTES
    from .leader_hints import LeaderIdAndEpoch, NodeEndpoint
    from .primitives import BUFFER_TYPES, ZERO_UUID, MalformedMessageError, Part, Reader, Writer, part_size
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
    "BUFFER_TYPES",
    "GROUP_CONFIGS",
    "GROUP_HEARTBEAT_INTERVAL",
    "GROUP_SESSION_TIMEOUT",
    "SHARE_HEARTBEAT_INTERVAL",
    "SHARE_SESSION_TIMEOUT",
    "SIZE_BYTES",
    "ZERO_UUID",
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
    "describe_configs_response",
    "part_size",
    "read_uvarint",
    "read_varint",
    "run_to_end",
    "write_uvarint",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "ACKS_ALL": "produce",
            "ACKS_LEADER": "produce",
            "ACKS_NONE": "produce",
            "BUFFER_TYPES": "primitives",
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
            "GROUP_CONFIGS": "config_resources",
            "GROUP_HEARTBEAT_INTERVAL": "config_resources",
            "GROUP_SESSION_TIMEOUT": "config_resources",
            "SHARE_HEARTBEAT_INTERVAL": "config_resources",
            "SHARE_SESSION_TIMEOUT": "config_resources",
            "ResourceType": "config_resources",
            "SIZE_BYTES": "framing",
            "Steps": "stepping",
            "Writer": "primitives",
            "ZERO_UUID": "primitives",
            "describe_configs_response": "config_resources",
            "part_size": "primitives",
            "read_uvarint": "varint",
            "read_varint": "varint",
            "run_to_end": "stepping",
            "write_uvarint": "varint",
        },
    )
