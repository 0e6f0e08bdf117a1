"""Large requests are handled piece by piece: as several requests with a few elements each, whose answers are joined.

    request of 50,000 topics --> a piece of PIECE_ELEMENTS --> handler --> its answers \
                             --> the next, once the loop's share allows it --> ...      > one response

A handler thus costs the loop as much as for a small request, and starts no further tasks. The APIs in `SPLITS` answer
each element by itself, in Kafka too. What is named twice by a request that only asks is looked up once. No piece of
such a request is begun once its connection is closed, nor one of offsets: the client may have committed newer ones over
its next connection, or begun its next transaction. A piece that fails as a whole ends the request with its error; what
was changed before it stays changed.

A topic that is cut between two pieces is one topic in the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from ...light_dataclass import dataclass
from ..api import ApiKey
from ..errors import ErrorCode, PeerError
from ..messages.base import Message, ResponseT, replaced
from ..messages.errors import WithError
from .dispatch import Handler, RequestContext
from .object_memory import ELEMENT_BYTES
from .pacing import SLICE_ELEMENTS, pace

SLICED_ELEMENTS_MIN: Final = 200
"""A request with fewer elements is handled at once."""
PIECE_ELEMENTS: Final = 100
PIECES_S: Final = 30.0
"""How long pieces of a request are begun: Kafka's `request.timeout.ms` of clients."""


@dataclass(frozen=True, slots=True)
class Split:
    """The names of the arrays by which an API is cut: of the request, of the response, and within their elements."""

    items: str
    answers: str
    inner_items: str | None = None
    inner_answers: str | None = None
    asks_only: bool = False
    ends_with_connection: bool = False
    """Whether the rest must not be done for a client that has given up; what only asks ends too."""


class ConnectionClosedError(PeerError):
    """The connection is closed: the client cannot be answered."""


RequestT = TypeVar("RequestT", bound=Message)
Item = Message | str | int
"""An element of a request or a response: a structure, the name of a group, the number of a partition."""

_PARTITIONS = ("partitions", "partitions")
SPLITS: Final[Mapping[ApiKey, Split]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: Split("entries", "entries"),
    ApiKey.ALTER_CONFIGS: Split("resources", "responses"),
    ApiKey.ALTER_PARTITION: Split("topics", "topics", *_PARTITIONS),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Split("topics", "responses", *_PARTITIONS),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Split("directories", "directories"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split("group_ids", "groups", asks_only=True),
    ApiKey.CREATE_ACLS: Split("creations", "results"),
    ApiKey.CREATE_PARTITIONS: Split("topics", "results"),
    ApiKey.CREATE_TOPICS: Split("topics", "topics"),
    ApiKey.DELETE_ACLS: Split("filters", "filter_results"),
    ApiKey.DELETE_GROUPS: Split("groups_names", "results"),
    ApiKey.DELETE_RECORDS: Split("topics", "topics", *_PARTITIONS),
    ApiKey.DELETE_TOPICS: Split("topics", "responses"),
    ApiKey.DESCRIBE_CONFIGS: Split("resources", "results", asks_only=True),
    ApiKey.DESCRIBE_GROUPS: Split("groups", "groups", asks_only=True),
    ApiKey.DESCRIBE_PRODUCERS: Split("topics", "topics", "partition_indexes", "partitions", asks_only=True),
    ApiKey.DESCRIBE_TRANSACTIONS: Split("transactional_ids", "transaction_states", asks_only=True),
    ApiKey.ELECT_LEADERS: Split("topic_partitions", "replica_election_results", "partitions", "partition_result"),
    ApiKey.FIND_COORDINATOR: Split("coordinator_keys", "coordinators", asks_only=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Split("resources", "responses"),
    ApiKey.LEAVE_GROUP: Split("members", "members"),
    ApiKey.LIST_OFFSETS: Split("topics", "topics", *_PARTITIONS, asks_only=True),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Split("topics", "topics", "partition_indexes", "partitions", asks_only=True),
    ApiKey.METADATA: Split("topics", "topics", asks_only=True),
    ApiKey.OFFSET_COMMIT: Split("topics", "topics", *_PARTITIONS, ends_with_connection=True),
    ApiKey.OFFSET_DELETE: Split("topics", "topics", *_PARTITIONS),
    ApiKey.OFFSET_FETCH: Split("groups", "groups"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Split("topics", "topics", *_PARTITIONS, asks_only=True),
    ApiKey.SHARE_GROUP_DESCRIBE: Split("group_ids", "groups", asks_only=True),
    ApiKey.TXN_OFFSET_COMMIT: Split("topics", "topics", *_PARTITIONS, ends_with_connection=True),
}


def only_asks(api: ApiKey) -> bool:
    """Return whether a large request of this API changes nothing, and is answered piece by piece."""
    split = SPLITS.get(api)
    return split is not None and split.asks_only


async def answered(handler: Handler, context: RequestContext, request: Message, elements: int) -> Message | None:
    """Return the response to a request of so many elements: piece by piece if it is large, and its API allows that.

    The elements of a large one are charged to the memory of the request.
    """
    if elements < SLICED_ELEMENTS_MIN:
        return await handler(context, request)
    context.hold(elements * ELEMENT_BYTES)
    split = SPLITS.get(context.api)
    if split is None:
        return await handler(context, request)
    return await answered_in_pieces(handler, split, context, request)


async def answered_in_pieces(
    handler: Callable[[RequestContext, RequestT], Awaitable[ResponseT]],
    split: Split,
    context: RequestContext,
    request: RequestT,
) -> ResponseT:
    """Return the response to a large request; the one of `handler` if it names no elements. Raise
    ConnectionClosedError where no client waits for it, and TimeoutError, which ends the connection, rather than begin a
    piece after `PIECES_S`: its client has given up.
    """
    items = getattr(request, split.items)
    if not items:
        return await handler(context, request)
    turns, had = pace(), 0
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PIECES_S
    answers = Joined(split.inner_answers)
    response: ResponseT | None = None
    for piece in pieces(items, split):
        had += SLICE_ELEMENTS
        await turns.spend(SLICE_ELEMENTS, had)
        if not piece:
            continue
        if loop.time() > deadline_s:
            raise TimeoutError(f"{context.api.name}: its parts took longer than {PIECES_S:.0f} s")
        if (split.asks_only or split.ends_with_connection) and context.is_closed():
            raise ConnectionClosedError(f"{context.peer} has closed its connection")
        response = await handler(context, replaced(request, **{split.items: tuple(piece)}))
        answers.add(getattr(response, split.answers))
        if isinstance(response, WithError) and response.error_code is not ErrorCode.none:
            break
    assert isinstance(response, Message), (context.api, response)
    return replaced(response, **{split.answers: answers.result()})


def pieces(items: Sequence[Item], split: Split) -> Iterator[list[Item]]:
    """Yield the elements in pieces of at most `PIECE_ELEMENTS`; an inner element counts as one. A piece is empty where
    many elements were found to repeat earlier ones.
    """
    piece: list[Item] = []
    count = scanned = 0
    for part, size, was in _parts(items, split):
        scanned += was
        if part is not None:
            if piece and count + size > PIECE_ELEMENTS:
                yield piece
                piece, count, scanned = [], 0, 0
            piece.append(part)
            count += size
        elif scanned >= SLICE_ELEMENTS:
            yield []
            scanned = 0
    if piece:
        yield piece


def _parts(items: Sequence[Item], split: Split) -> Iterator[tuple[Item | None, int, int]]:
    """Yield elements whole, or cut by their inner arrays, with their size and what that was before repetitions were
    left out; None for one of which nothing is left.
    """
    inner = split.inner_items
    seen: set[object] = set()
    for item in items:
        held = () if inner is None else getattr(item, inner)
        if inner is None or len(held) < PIECE_ELEMENTS:
            is_new = not split.asks_only or item not in seen
            seen.update((item,) if split.asks_only else ())
            yield item if is_new else None, 1 + len(held), 1 + len(held)
            continue
        assert isinstance(item, Message), item
        name = replaced(item, **{inner: ()})
        for start in range(0, len(held), PIECE_ELEMENTS - 1):
            some = held[start : start + PIECE_ELEMENTS - 1]
            was = 1 + len(some)
            if split.asks_only:
                some = tuple(each for each in dict.fromkeys(some) if (name, each) not in seen)
                seen.update((name, each) for each in some)
            yield replaced(item, **{inner: some}) if some else None, 1 + len(some), was


class Joined:
    """The answers of all pieces; what belongs to the last element so far is joined with it."""

    def __init__(self, inner: str | None) -> None:
        self._inner = inner
        self._answers: list[Item] = []
        self._last: list[Item] = []
        """The inner elements of the last answer."""

    def add(self, answers: Sequence[Item]) -> None:
        """Append the answers of a piece."""
        if self._inner is None:
            self._answers += answers
            return
        for answer in answers:
            assert isinstance(answer, Message), answer
            outer = replaced(answer, **{self._inner: ()})
            if not self._answers or self._answers[-1] != outer:
                self._end_last()
                self._answers.append(outer)
            self._last += getattr(answer, self._inner)

    def result(self) -> tuple[Item, ...]:
        """Return all answers."""
        self._end_last()
        return tuple(self._answers)

    def _end_last(self) -> None:
        if self._inner is not None and self._answers:
            last = self._answers[-1]
            assert isinstance(last, Message), last
            self._answers[-1] = replaced(last, **{self._inner: tuple(self._last)})
            self._last = []
