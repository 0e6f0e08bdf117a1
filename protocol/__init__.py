"""Bytes to values and back: Kafka requests and responses (kio), record batches v2, error codes, connections.

It knows no roles (leader, follower, controller) and no files. All of it is pure except `net/` and `authorization/`.

api                    is the table of APIs: key, versions, first flexible version.
wire/                  encodes primitive types, frames, and messages.
records/               encodes and decodes record batches.
fetch/                 is Fetch: its messages and its sessions.
authorization/         lets requests through to their handlers, or denies them.
net/                   is connections: clients, listeners, limits, dispatch.
codec                  turns frames into requests and responses, and back.
envelope               wraps requests that a broker forwards for a client (KIP-590).
error_codes            imports Kafka's error codes, and the first of kio.
errors                 declares `KafkaError` and the families of errors.
authorized_operations  declares the bits of what a client may do with a resource (KIP-430).
start_waits            remembers what a start waits for, so that its process can report it.
topics                 names topic partitions, and writes UUIDs as Kafka does.
byte_text              formats and parses quantities of bytes.
values                 declares values that are made for every request and never change.
request_elements       limits the array elements of a request, by API.
requests               builds requests that tools send to any cluster.
extensions             declares our own tagged fields in Kafka's messages (KIP-482).

Other folders import the names below, which nearly every one of them needs. Its subfolders are doors of their own, and
a message, a codec or a connection is imported from its module: no process needs them all.
"""

from __future__ import annotations

from .error_codes import ErrorCode  # before anything else of kio: see there

# isort: split
from .api import ApiKey
from .errors import (
    OUTSIDE,
    CorruptRecordError,
    InternalError,
    KafkaError,
    OperatorError,
    PeerError,
    RetriableError,
)
from .topics import (
    CLUSTER_METADATA_TOPIC,
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    METADATA_TOPIC_ID,
    REMOTE_LOG_METADATA_TOPIC,
    TopicIdPartition,
    TopicPartition,
    check_topic_name,
    interned_id,
    uuid_from_text,
    uuid_to_text,
)

__all__ = [
    "CLUSTER_METADATA_TOPIC",
    "GROUP_METADATA_TOPIC",
    "INTERNAL_TOPICS",
    "METADATA_TOPIC_ID",
    "OUTSIDE",
    "REMOTE_LOG_METADATA_TOPIC",
    "ApiKey",
    "CorruptRecordError",
    "ErrorCode",
    "InternalError",
    "KafkaError",
    "OperatorError",
    "PeerError",
    "RetriableError",
    "TopicIdPartition",
    "TopicPartition",
    "check_topic_name",
    "interned_id",
    "uuid_from_text",
    "uuid_to_text",
]
