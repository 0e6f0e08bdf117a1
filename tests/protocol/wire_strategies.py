"""Hypothesis strategies for Produce and Fetch messages, and their equivalents as plain values of kio's entities."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch import messages as fetch_messages
from tierfetch.protocol.wire import produce as produce_wire
from tierfetch.protocol.wire.leader_hints import LeaderIdAndEpoch, NodeEndpoint

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
OPTIONAL_TEXT = st.none() | TEXT
TOPIC_ID = st.none() | st.uuids().filter(lambda value: value != UUID(int=0))
RECORDS = st.none() | st.binary(max_size=40) | st.integers(4000, 6000).map(bytes)
ERROR_CODE = st.sampled_from(ErrorCode)
TIME_MS = st.integers(0, 2**41)
LEADER = st.none() | st.builds(LeaderIdAndEpoch, INT32, INT32).filter(lambda leader: leader != (-1, -1))
ENDPOINTS = st.lists(st.builds(NodeEndpoint, INT32, TEXT, INT32, OPTIONAL_TEXT), max_size=2).map(tuple)


def tuples(element: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(element, max_size=3).map(tuple)


PRODUCE_REQUEST = st.builds(
    produce_wire.ProduceRequest,
    acks=INT16,
    timeout_ms=INT32,
    transactional_id=OPTIONAL_TEXT,
    topics=tuples(
        st.builds(
            produce_wire.ProduceTopic,
            tuples(st.builds(produce_wire.ProducePartition, INT32, RECORDS)),
            TEXT,
            TOPIC_ID,
        )
    ),
)
PRODUCE_RESPONSE = st.builds(
    produce_wire.ProduceResponse,
    topics=tuples(
        st.builds(
            produce_wire.ProduceTopicResponse,
            tuples(
                st.builds(
                    produce_wire.ProducePartitionResponse,
                    partition=INT32,
                    error_code=ERROR_CODE,
                    base_offset=INT64,
                    log_append_time_ms=TIME_MS | st.just(-1),
                    log_start_offset=INT64,
                    record_errors=tuples(st.builds(produce_wire.RecordError, INT32, OPTIONAL_TEXT)),
                    error_message=OPTIONAL_TEXT,
                    current_leader=LEADER,
                )
            ),
            TEXT,
            TOPIC_ID,
        )
    ),
    throttle_time_ms=INT32,
    node_endpoints=ENDPOINTS,
)
FETCH_REQUEST = st.builds(
    fetch_messages.FetchRequest,
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    isolation_level=st.integers(-128, 127),
    replica_id=INT32 | st.just(-1),
    replica_epoch=INT64 | st.just(-1),
    session_id=INT32,
    session_epoch=INT32,
    topics=tuples(
        st.builds(
            fetch_messages.FetchTopic,
            tuples(
                st.builds(
                    fetch_messages.FetchPartition,
                    *(INT32, INT32, INT64, INT32, INT64, INT32, TOPIC_ID),
                    INT64 | st.just(fetch_messages.HIGH_WATERMARK_UNKNOWN),
                    st.just(fetch_messages.LOCAL_LOG_START_UNKNOWN),  # kio does not know it
                )
            ),
            TEXT,
            TOPIC_ID,
        )
    ),
    forgotten_topics=tuples(st.builds(fetch_messages.ForgottenTopic, tuples(INT32), TEXT, TOPIC_ID)),
    rack_id=TEXT,
    cluster_id=OPTIONAL_TEXT,
)
FETCH_RESPONSE = st.builds(
    fetch_messages.FetchResponse,
    topics=tuples(
        st.builds(
            fetch_messages.FetchTopicResponse,
            tuples(
                st.builds(
                    fetch_messages.FetchPartitionResponse,
                    partition=INT32,
                    error_code=ERROR_CODE,
                    high_watermark=INT64,
                    last_stable_offset=INT64,
                    log_start_offset=INT64,
                    aborted_transactions=st.none() | tuples(st.builds(fetch_messages.AbortedTransaction, INT64, INT64)),
                    preferred_read_replica=INT32,
                    records=RECORDS,
                    diverging_epoch=st.none()
                    | st.builds(fetch_messages.EpochEndOffset, INT32, INT64).filter(lambda value: value != (-1, -1)),
                    current_leader=LEADER,
                    snapshot_id=st.none()
                    | st.builds(fetch_messages.SnapshotId, INT64, INT32).filter(lambda value: value != (-1, -1)),
                )
            ),
            TEXT,
            TOPIC_ID,
        )
    ),
    error_code=ERROR_CODE,
    session_id=INT32,
    throttle_time_ms=INT32,
    node_endpoints=ENDPOINTS,
)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _leader(leader: LeaderIdAndEpoch | None) -> dict[str, int] | None:
    return None if leader is None else leader._asdict()


def _endpoints(endpoints: tuple[NodeEndpoint, ...]) -> list[dict[str, Any]]:
    return [endpoint._asdict() for endpoint in endpoints]


def produce_request_values(request: produce_wire.ProduceRequest) -> dict[str, Any]:
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout_ms": request.timeout_ms,
        "topic_data": [
            {
                "name": topic.topic,
                "topic_id": topic.topic_id,
                "partition_data": [
                    {"index": partition.partition, "records": partition.records} for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def produce_response_values(response: produce_wire.ProduceResponse) -> dict[str, Any]:
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "node_endpoints": _endpoints(response.node_endpoints),
        "responses": [
            {
                "name": topic.topic,
                "topic_id": topic.topic_id,
                "partition_responses": [
                    _present(current_leader=_leader(partition.current_leader))
                    | {
                        "index": partition.partition,
                        "error_code": partition.error_code,
                        "base_offset": partition.base_offset,
                        "log_append_time_ms": partition.log_append_time_ms,
                        "log_start_offset": partition.log_start_offset,
                        "error_message": partition.error_message,
                        "record_errors": [
                            {"batch_index": error.batch_index, "batch_index_error_message": error.message}
                            for error in partition.record_errors
                        ],
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in response.topics
        ],
    }


def fetch_request_values(request: fetch_messages.FetchRequest) -> dict[str, Any]:
    return {
        "max_wait_ms": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "replica_id": request.replica_id,
        "replica_state": {"replica_id": request.replica_id, "replica_epoch": request.replica_epoch},
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "rack_id": request.rack_id,
        "cluster_id": request.cluster_id,
        "topics": [
            {
                "topic": topic.topic,
                "topic_id": topic.topic_id,
                "partitions": [_kafkas_fields(partition) for partition in topic.partitions],
            }
            for topic in request.topics
        ],
        "forgotten_topics_data": [
            {"topic": topic.topic, "topic_id": topic.topic_id, "partitions": topic.partitions}
            for topic in request.forgotten_topics
        ],
    }


def _kafkas_fields(partition: fetch_messages.FetchPartition) -> dict[str, Any]:
    return {name: value for name, value in asdict(partition).items() if name != "local_log_start_offset"}


def fetch_response_values(response: fetch_messages.FetchResponse) -> dict[str, Any]:
    def partition_values(partition: fetch_messages.FetchPartitionResponse) -> dict[str, Any]:
        aborted, diverging, snapshot = (
            partition.aborted_transactions,
            partition.diverging_epoch,
            partition.snapshot_id,
        )
        return {
            "partition_index": partition.partition,
            "error_code": partition.error_code,
            "high_watermark": partition.high_watermark,
            "last_stable_offset": partition.last_stable_offset,
            "log_start_offset": partition.log_start_offset,
            "aborted_transactions": None if aborted is None else [item._asdict() for item in aborted],
            "preferred_read_replica": partition.preferred_read_replica,
            "records": partition.records,
        } | _present(
            diverging_epoch=None if diverging is None else diverging._asdict(),
            current_leader=_leader(partition.current_leader),
            snapshot_id=None if snapshot is None else snapshot._asdict(),
        )

    return {
        "throttle_time_ms": response.throttle_time_ms,
        "error_code": response.error_code,
        "session_id": response.session_id,
        "node_endpoints": _endpoints(response.node_endpoints),
        "responses": [
            {
                "topic": topic.topic,
                "topic_id": topic.topic_id,
                "partitions": [partition_values(partition) for partition in topic.partitions],
            }
            for topic in response.topics
        ],
    }
