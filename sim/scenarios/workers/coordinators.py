"""Requests to coordinators: a coordinator is looked for at any broker, asked, and looked for again after a failure.

| a request ends with | because                                                                                     |
|---------------------|---------------------------------------------------------------------------------------------|
| its answer          | the coordinator has answered, whatever the answer says                                      |
| AttemptFailedError  | there is no answer: whether the coordinator has acted is not known                          |

`check` raises what an answer's code means for a client: what it does next.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from ....protocol import ErrorCode
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.groups import FindCoordinatorRequest
from ....protocol.net import Address, KafkaClient
from ..client import AttemptFailedError
from ..workload import UnexpectedError

OF_GROUPS: Final = 0
OF_TRANSACTIONS: Final = 1
TIMEOUT_S: Final = 4.0
LATER: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unreleased_instance_id,
        ErrorCode.unstable_offset_commit,
    }
)
"""Nothing has happened, and may when it is tried again."""
AWAY: Final = LATER - {
    ErrorCode.concurrent_transactions,
    ErrorCode.unreleased_instance_id,
    ErrorCode.unstable_offset_commit,
}
"""Another broker may coordinate by now."""
FENCED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found})
"""The coordinator knows nothing of the member, or of what it has: it gives up all of that, and joins again."""
REJOIN: Final = FENCED | {
    ErrorCode.rebalance_in_progress,
    ErrorCode.illegal_generation,
    ErrorCode.stale_member_epoch,
}
SUPERSEDED: Final = frozenset(
    {ErrorCode.fenced_instance_id, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch}
)
ABORTABLE: Final = frozenset({ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable})


class LaterError(Exception):
    """Nothing has happened; try again."""


class RejoinError(Exception):
    """The group has another generation, or does not know the member."""


class SupersededError(Exception):
    """Another process has the same instance id or transactional id, or the transaction took too long."""


class AbortableError(Exception):
    """The transaction cannot be committed any longer."""


class CoordinatorClient:
    """The requests of one process. Close it."""

    def __init__(self, client_id: str, bootstrap: Sequence[Address], rng: Random) -> None:
        self._client = KafkaClient(client_id=client_id, random=rng)
        self._bootstrap = tuple(bootstrap)
        self._rng = rng
        self._found: dict[tuple[int, str], Address] = {}

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, kind: int, key: str, request: Request[ResponseT], max_version: int | None = None) -> ResponseT:
        """Send a request to the coordinator of `key`. Raise AttemptFailedError, or LaterError if there is none."""
        address = self._found.get((kind, key))
        if address is None:
            address = self._found[kind, key] = await self._find(kind, key)
        try:
            return await self._client.send(address, request, max_version=max_version, timeout_s=TIMEOUT_S)
        except OSError as error:
            self._found.pop((kind, key), None)
            raise AttemptFailedError(f"{type(request).__name__} to {address}: {error}") from error

    def check(self, kind: int, key: str, code: ErrorCode, what: str) -> None:
        """Raise what a code means for a client: see the errors above; UnexpectedError if no fault explains it."""
        if code is ErrorCode.none:
            return
        if code in AWAY:
            self._found.pop((kind, key), None)
        for codes, error in (
            (LATER, LaterError),
            (REJOIN, RejoinError),
            (SUPERSEDED, SupersededError),
            (ABORTABLE, AbortableError),
        ):
            if code in codes:
                raise error(f"{what}: {code.name}")
        raise UnexpectedError(f"{what}: {code.name}")

    async def _find(self, kind: int, key: str) -> Address:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
        address = self._rng.choice(self._bootstrap)
        try:
            answer = await self._client.send(address, request, timeout_s=TIMEOUT_S)
        except OSError as error:
            raise LaterError(f"{address}: {error}") from error
        (found,) = answer.coordinators
        if found.error_code is not ErrorCode.none:
            raise LaterError(f"{address} knows no coordinator of {key}: {found.error_code.name}")
        return Address(found.host, found.port)
