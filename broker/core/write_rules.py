"""What a Produce request must not write, from any client: internal topics, control batches, transactions without a coordinator.

| what | who may write it | everyone else gets |
|---|---|---|
| `__consumer_offsets`, `__transaction_state`, `__share_group_state`, `__cluster_metadata` | the node itself, not by Produce | INVALID_TOPIC_EXCEPTION |
| `__remote_log_metadata` | brokers, over the inter-broker listener | TOPIC_AUTHORIZATION_FAILED |
| a transactional batch, without a transactional id | no client (KIP-98) | TRANSACTIONAL_ID_AUTHORIZATION_FAILED |
| a transactional batch, with one | a producer whose transaction is ongoing (KIP-890) | INVALID_TXN_STATE |

Where brokers and clients share one listener nothing proves that a broker sends. Then the client ids of brokers' metadata
managers, Kafka's and ours, keep accidents out and nothing else: use a separate inter-broker listener, or an authorizer.

What a log says of a producer's sequences is as true as its leadership: a replica that was replaced without its knowledge
lacks the producer's newer batches. Clients end at such an error, so a broker that is not heard does not give it: they
look for the leader instead, and ask again.

Control batches of clients are rejected where batches are checked (`log.core.validation`).
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ...protocol import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, REMOTE_LOG_METADATA_TOPIC, ErrorCode, KafkaError

CLOSED_TOPICS: Final = INTERNAL_TOPICS | {CLUSTER_METADATA_TOPIC}
METADATA_MANAGER: Final = re.compile(r"tierfetch-broker-\d+|__remote_log_metadata_client.*")
"""The client ids of brokers' remote log metadata managers: ours, and those of Apache Kafka."""

OF_PRODUCER_STATE: Final = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.invalid_txn_state})
"""What a log answers by what it knows of a producer, and clients do not ask again."""

IsOngoing = Callable[[str, int, int], bool]
"""Whether a transaction of this transactional id, producer id and producer epoch is ongoing."""


def none_ongoing(transactional_id: str, producer_id: int, producer_epoch: int) -> bool:
    """Return False: without a transaction coordinator no transaction can be verified."""
    return False


def check_topic(topic: str, client_id: str | None, *, is_from_broker: bool | None) -> None:
    """Raise KafkaError if Produce must not write to `topic`. `is_from_broker` says which listener a request came by:
    None where brokers and clients share it.
    """
    if topic in CLOSED_TOPICS:
        raise KafkaError(ErrorCode.invalid_topic_exception, f"{topic} is internal: brokers write it, clients do not")
    if topic != REMOTE_LOG_METADATA_TOPIC or is_from_broker:
        return
    if is_from_broker is None and METADATA_MANAGER.fullmatch(client_id or ""):
        return
    message = f"{topic} is written by the brokers' remote log metadata managers only"
    raise KafkaError(ErrorCode.topic_authorization_failed, message)


def check_transaction(
    transactional_id: str | None, producer_id: int, producer_epoch: int, is_ongoing: IsOngoing
) -> None:
    """Raise KafkaError unless a transactional batch belongs to an ongoing transaction."""
    if transactional_id is None:
        message = f"producer {producer_id}: a transactional batch in a request without a transactional.id"
        raise KafkaError(ErrorCode.transactional_id_authorization_failed, message)
    if not is_ongoing(transactional_id, producer_id, producer_epoch):
        message = (
            f"transactional.id {transactional_id}, producer {producer_id} in epoch {producer_epoch}: no ongoing "
            "transaction; this cluster does not coordinate transactions yet, use an idempotent producer"
        )
        raise KafkaError(ErrorCode.invalid_txn_state, message)


def verdict(error: KafkaError, *, is_heard: bool) -> KafkaError:
    """Return what a producer is told when the log of its leader has refused its batch (`is_heard`: `ClusterView`)."""
    if is_heard or error.code not in OF_PRODUCER_STATE:
        return error
    return KafkaError(
        ErrorCode.not_leader_or_follower,
        f"no controller has answered this broker of late: another may lead by now ({error.message})",
    )
