"""Requests about transactions: allowed on the transactional id, and on what the transaction touches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...security import AclOperation
from ..errors import ErrorCode
from ..messages import transactions
from .access import Access, Next, shown, split

ID_FAILED = ErrorCode.transactional_id_authorization_failed
TOPIC_FAILED = ErrorCode.topic_authorization_failed
OF_BROKERS_SINCE = 4
"""AddPartitionsToTxn comes from brokers from this version on (KIP-890)."""


async def add_partitions(
    access: Access,
    handler: Next[transactions.AddPartitionsToTxnRequest, transactions.AddPartitionsToTxnResponse],
    request: transactions.AddPartitionsToTxnRequest,
) -> transactions.AddPartitionsToTxnResponse:
    """Write on the transactional id and on each topic, all or nothing; ClusterAction for brokers."""
    if access.context.api_version >= OF_BROKERS_SINCE:
        if access.may_cluster(AclOperation.CLUSTER_ACTION):
            return await handler(access.context, request)
        return transactions.AddPartitionsToTxnResponse(error_code=ErrorCode.cluster_authorization_failed)
    topics = request.v3_and_below_topics
    if not access.may_transaction(AclOperation.WRITE, request.v3_and_below_transactional_id):
        return _not_added(topics, dict.fromkeys((topic.name for topic in topics), ID_FAILED))
    allowed, denied = split(topics, lambda topic: access.may_topic(AclOperation.WRITE, topic.name))
    if not denied:
        return await handler(access.context, request)
    codes = {topic.name: TOPIC_FAILED for topic in denied}
    return _not_added(topics, codes | {topic.name: ErrorCode.operation_not_attempted for topic in allowed})


def _not_added(
    topics: Iterable[transactions.AddPartitionsToTxnTopic], codes: dict[str, ErrorCode]
) -> transactions.AddPartitionsToTxnResponse:
    return transactions.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            transactions.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    transactions.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=codes[topic.name]
                    )
                    for number in topic.partitions
                ),
            )
            for topic in topics
        )
    )


async def add_offsets(
    access: Access,
    handler: Next[transactions.AddOffsetsToTxnRequest, transactions.AddOffsetsToTxnResponse],
    request: transactions.AddOffsetsToTxnRequest,
) -> transactions.AddOffsetsToTxnResponse:
    """Write on the transactional id, and Read on the group."""
    code = _denied(access, request.transactional_id, request.group_id)
    if code is not ErrorCode.none:
        return transactions.AddOffsetsToTxnResponse(error_code=code)
    return await handler(access.context, request)


def _denied(access: Access, transactional_id: str, group_id: str) -> ErrorCode:
    if not access.may_transaction(AclOperation.WRITE, transactional_id):
        return ID_FAILED
    is_allowed = access.may_group(AclOperation.READ, group_id)
    return ErrorCode.none if is_allowed else ErrorCode.group_authorization_failed


async def end_txn(
    access: Access,
    handler: Next[transactions.EndTxnRequest, transactions.EndTxnResponse],
    request: transactions.EndTxnRequest,
) -> transactions.EndTxnResponse:
    """Write on the transactional id."""
    if access.may_transaction(AclOperation.WRITE, request.transactional_id):
        return await handler(access.context, request)
    return transactions.EndTxnResponse(error_code=ID_FAILED)


async def txn_offset_commit(
    access: Access,
    handler: Next[transactions.TxnOffsetCommitRequest, transactions.TxnOffsetCommitResponse],
    request: transactions.TxnOffsetCommitRequest,
) -> transactions.TxnOffsetCommitResponse:
    """Write on the transactional id, Read on the group and on each topic."""
    code = _denied(access, request.transactional_id, request.group_id)
    if code is not ErrorCode.none:
        return transactions.TxnOffsetCommitResponse(topics=tuple(_uncommitted(each, code) for each in request.topics))
    allowed, denied = split(request.topics, lambda topic: access.may_topic(AclOperation.READ, topic.name))
    response = await handler(access.context, replace(request, topics=allowed))
    return replace(response, topics=(*response.topics, *(_uncommitted(topic, TOPIC_FAILED) for topic in denied)))


def _uncommitted(
    topic: transactions.TxnOffsetCommitRequestTopic, code: ErrorCode
) -> transactions.TxnOffsetCommitResponseTopic:
    partitions = tuple(
        transactions.TxnOffsetCommitResponsePartition(partition_index=item.partition_index, error_code=code)
        for item in topic.partitions
    )
    return transactions.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)


async def describe_producers(
    access: Access,
    handler: Next[transactions.DescribeProducersRequest, transactions.DescribeProducersResponse],
    request: transactions.DescribeProducersRequest,
) -> transactions.DescribeProducersResponse:
    """Read on each topic."""
    allowed, others = split(request.topics, lambda topic: access.may_topic(AclOperation.READ, topic.name))
    denied = tuple(
        transactions.TopicResponse(
            name=topic.name,
            partitions=tuple(
                transactions.PartitionResponse(partition_index=number, error_code=TOPIC_FAILED, active_producers=())
                for number in topic.partition_indexes
            ),
        )
        for topic in others
    )
    response = await handler(access.context, replace(request, topics=allowed))
    return replace(response, topics=(*response.topics, *denied))


async def describe_transactions(
    access: Access,
    handler: Next[transactions.DescribeTransactionsRequest, transactions.DescribeTransactionsResponse],
    request: transactions.DescribeTransactionsRequest,
) -> transactions.DescribeTransactionsResponse:
    """Describe on each transactional id; topics that may not be described are left out."""
    allowed, others = split(request.transactional_ids, lambda name: access.may_transaction(AclOperation.DESCRIBE, name))
    response = await handler(access.context, replace(request, transactional_ids=allowed))
    states = [
        replace(
            state,
            topics=await shown(
                state.topics, lambda topic: access.may_topic(AclOperation.DESCRIBE, topic.topic, is_logged=False)
            ),
        )
        for state in response.transaction_states
    ]
    denied = [
        transactions.DescribeTransactionsResponseTransactionState(
            error_code=ID_FAILED,
            transactional_id=name,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
        for name in others
    ]
    return replace(response, transaction_states=(*states, *denied))


async def list_transactions(
    access: Access,
    handler: Next[transactions.ListTransactionsRequest, transactions.ListTransactionsResponse],
    request: transactions.ListTransactionsRequest,
) -> transactions.ListTransactionsResponse:
    """Describe on each transactional id that is listed."""
    response = await handler(access.context, request)
    states = await shown(
        response.transaction_states,
        lambda state: access.may_transaction(AclOperation.DESCRIBE, state.transactional_id, is_logged=False),
    )
    return replace(response, transaction_states=states)
