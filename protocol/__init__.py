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
values                 declares values that are made for every request and never change.
request_elements       limits the array elements of a request, by API.
requests               builds requests that tools send to any cluster.
extensions             declares our own tagged fields in Kafka's messages (KIP-482).

Other folders import what is exported here and in the subfolders. What nearly every one of them needs is imported at
once, the rest when it is asked for: no process needs it all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
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
    describe_error,
)
from .topics import (
    CLUSTER_METADATA_TOPIC,
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    METADATA_TOPIC_ID,
    REMOTE_LOG_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicIdPartition,
    TopicPartition,
    check_topic_name,
    interned_id,
    numbers_by_topic,
    uuid_from_text,
    uuid_to_text,
)
from .values import value

if TYPE_CHECKING:
    from .authorized_operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, OPERATIONS_NOT_ASKED, TOPIC_OPERATIONS
    from .codec import UnsupportedVersionError, read_request_header, response_steps
    from .envelope import EnvelopeError, envelope_principal, joined_parts, response_in_envelope, wrapped_in_envelope
    from .extensions import NOT_THIN, NOT_WARMED
    from .requests import (
        BROKER_ENDPOINTS,
        CONTROLLER_ENDPOINTS,
        cluster_of,
        configs_of,
        is_named_rightly,
        metadata_of,
        offsets_of,
    )
    from .start_waits import StartWaits, Unanswered, WaitLimit, listed_reasons

__all__ = [
    "BROKER_ENDPOINTS",
    "CLUSTER_METADATA_TOPIC",
    "CLUSTER_OPERATIONS",
    "CONTROLLER_ENDPOINTS",
    "GROUP_METADATA_TOPIC",
    "GROUP_OPERATIONS",
    "INTERNAL_TOPICS",
    "METADATA_TOPIC_ID",
    "NOT_THIN",
    "NOT_WARMED",
    "OPERATIONS_NOT_ASKED",
    "OUTSIDE",
    "REMOTE_LOG_METADATA_TOPIC",
    "SHARE_GROUP_STATE_TOPIC",
    "TOPIC_OPERATIONS",
    "TRANSACTION_STATE_TOPIC",
    "ApiKey",
    "CorruptRecordError",
    "EnvelopeError",
    "ErrorCode",
    "InternalError",
    "KafkaError",
    "OperatorError",
    "PeerError",
    "RetriableError",
    "StartWaits",
    "TopicIdPartition",
    "TopicPartition",
    "Unanswered",
    "UnsupportedVersionError",
    "WaitLimit",
    "check_topic_name",
    "cluster_of",
    "configs_of",
    "describe_error",
    "envelope_principal",
    "interned_id",
    "is_named_rightly",
    "joined_parts",
    "listed_reasons",
    "metadata_of",
    "numbers_by_topic",
    "offsets_of",
    "read_request_header",
    "response_in_envelope",
    "response_steps",
    "uuid_from_text",
    "uuid_to_text",
    "value",
    "wrapped_in_envelope",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "BROKER_ENDPOINTS": "requests",
            "CLUSTER_OPERATIONS": "authorized_operations",
            "CONTROLLER_ENDPOINTS": "requests",
            "EnvelopeError": "envelope",
            "GROUP_OPERATIONS": "authorized_operations",
            "NOT_THIN": "extensions",
            "NOT_WARMED": "extensions",
            "OPERATIONS_NOT_ASKED": "authorized_operations",
            "StartWaits": "start_waits",
            "TOPIC_OPERATIONS": "authorized_operations",
            "Unanswered": "start_waits",
            "UnsupportedVersionError": "codec",
            "WaitLimit": "start_waits",
            "cluster_of": "requests",
            "configs_of": "requests",
            "envelope_principal": "envelope",
            "is_named_rightly": "requests",
            "joined_parts": "envelope",
            "listed_reasons": "start_waits",
            "metadata_of": "requests",
            "offsets_of": "requests",
            "read_request_header": "codec",
            "response_in_envelope": "envelope",
            "response_steps": "codec",
            "wrapped_in_envelope": "envelope",
        },
    )
