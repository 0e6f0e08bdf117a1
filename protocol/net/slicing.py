"""Large requests are handled piece by piece: as several requests with a few elements each, whose answers are joined.

    request of 50,000 topics --> a piece of PIECE_ELEMENTS --> handler --> its answers \
                             --> the next, once the loop's share allows it --> ...      > one response

A handler thus costs the loop as much as for a small request, and starts no more tasks. The APIs in `SPLITS` answer each
element by itself, in Kafka too. What is named twice by a request that only asks is looked up once. A piece that fails
as a whole ends the request with its error; what was changed before it stays changed.

A topic that is cut between two pieces is one topic in the response.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..api import ApiKey
from ..errors import ErrorCode
from .dispatch import Handler, RequestContext
from .pace import SLICE_ELEMENTS, pace

SLICED_ELEMENTS_MIN: Final = 200
"""A request with fewer elements is handled at once."""
PIECE_ELEMENTS: Final = 100


@dataclass(frozen=True, slots=True)
class Split:
    """The names of the arrays by which an API is cut: of the request, of the response, and within their elements."""

    items: str
    answers: str
    inner_items: str | None = None
    inner_answers: str | None = None
    asks_only: bool = False


_PARTITIONS = ("partitions", "partitions")
SPLITS: Final[Mapping[ApiKey, Split]] = {
    ApiKey.ALTER_CONFIGS: Split("resources", "responses"),
    ApiKey.ALTER_PARTITION: Split("topics", "topics", *_PARTITIONS),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Split("topics", "responses", *_PARTITIONS),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Split("directories", "directories"),
    ApiKey.CREATE_PARTITIONS: Split("topics", "results"),
    ApiKey.CREATE_TOPICS: Split("topics", "topics"),
    ApiKey.DELETE_GROUPS: Split("groups_names", "results"),
    ApiKey.DELETE_RECORDS: Split("topics", "topics", *_PARTITIONS),
    ApiKey.DELETE_TOPICS: Split("topics", "responses"),
    ApiKey.DESCRIBE_CONFIGS: Split("resources", "results", asks_only=True),
    ApiKey.DESCRIBE_GROUPS: Split("groups", "groups", asks_only=True),
    ApiKey.ELECT_LEADERS: Split("topic_partitions", "replica_election_results", "partitions", "partition_result"),
    ApiKey.FIND_COORDINATOR: Split("coordinator_keys", "coordinators", asks_only=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Split("resources", "responses"),
    ApiKey.LIST_OFFSETS: Split("topics", "topics", *_PARTITIONS, asks_only=True),
    ApiKey.METADATA: Split("topics", "topics", asks_only=True),
    ApiKey.OFFSET_COMMIT: Split("topics", "topics", *_PARTITIONS),
    ApiKey.OFFSET_DELETE: Split("topics", "topics", *_PARTITIONS),
    ApiKey.OFFSET_FETCH: Split("groups", "groups"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Split("topics", "topics", *_PARTITIONS, asks_only=True),
    ApiKey.WRITE_TXN_MARKERS: Split("markers", "markers"),
}


async def answered_in_pieces(handler: Handler, split: Split, context: RequestContext, request: Any) -> Any:
    """Return the response to a large request; the one of `handler` if it names no elements."""
    items = getattr(request, split.items)
    if not items:
        return await handler(context, request)
    turns, had = pace(), 0
    answers: list[Any] = []
    response: Any = None
    for piece in pieces(items, split):
        had += SLICE_ELEMENTS
        await turns.spend(SLICE_ELEMENTS, had)
        response = await handler(context, replace(request, **{split.items: tuple(piece)}))
        join(answers, getattr(response, split.answers), split.inner_answers)
        if getattr(response, "error_code", ErrorCode.none) is not ErrorCode.none:
            break
    return replace(response, **{split.answers: tuple(answers)})


def pieces(items: Sequence[Any], split: Split) -> Iterator[list[Any]]:
    """Yield the elements in pieces of at most `PIECE_ELEMENTS`, at least one; an inner element counts as one."""
    piece: list[Any] = []
    count = 0
    seen: set[Any] = set()
    for item in items:
        for part, size in _parts(item, split.inner_items):
            if split.asks_only and part in seen:
                continue
            if split.asks_only:
                seen.add(part)
            if piece and count + size > PIECE_ELEMENTS:
                yield piece
                piece, count = [], 0
            piece.append(part)
            count += size
    if piece:
        yield piece


def _parts(item: Any, inner: str | None) -> Iterator[tuple[Any, int]]:
    """Yield an element whole, or cut by its inner array, with its size."""
    held = () if inner is None else getattr(item, inner)
    if inner is None or len(held) < PIECE_ELEMENTS:
        yield item, 1 + len(held)
        return
    unique = tuple(dict.fromkeys(held))
    for start in range(0, len(unique), PIECE_ELEMENTS - 1):
        some = unique[start : start + PIECE_ELEMENTS - 1]
        yield replace(item, **{inner: some}), 1 + len(some)


def join(answers: list[Any], more: Sequence[Any], inner: str | None) -> None:
    """Append the answers of a piece; what belongs to the last element so far is joined with it."""
    if inner is not None and answers and more and _outer(answers[-1], inner) == _outer(more[0], inner):
        both = getattr(answers[-1], inner) + getattr(more[0], inner)
        answers[-1] = replace(answers[-1], **{inner: both})
        more = more[1:]
    answers += more


def _outer(answer: Any, inner: str) -> Any:
    return replace(answer, **{inner: ()})
