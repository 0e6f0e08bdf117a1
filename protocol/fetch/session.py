"""Incremental fetch sessions (KIP-227), without I/O.

A session is the leader's memory of what one fetcher asks for. The fetcher then sends changes only, and the leader
answers only partitions with news.

| request: id, epoch | means | answered |
|---|---|---|
| any, -1 | no session; closes session `id` | every partition; session id 0 |
| any, 0 | new session; closes session `id` | every partition; the new id, or 0 where there is no room |
| id, n > 0 | `topics` are added or changed, `forgotten_topics` removed | partitions with news; the id |
| unknown id | | error FETCH_SESSION_ID_NOT_FOUND |
| wrong n | another request with this session came between | error INVALID_FETCH_SESSION_EPOCH |
| topics by id where the session has names, or the reverse | | error FETCH_SESSION_TOPIC_ID_ERROR |

Here is what both sides know, and the fetcher's; the leader's is `leader_sessions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar
from uuid import UUID

from ..errors import ErrorCode, KafkaError
from ..topics import TopicIdPartition
from ..values import value
from .messages import FetchPartition, FetchPartitionResponse, FetchResponse, FetchTopic, ForgottenTopic

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
SESSION_ID_MAX: Final = 2**31 - 1


T = TypeVar("T")


def next_epoch(epoch: int) -> int:
    """The epoch of the request after one with `epoch`; wraps to 1, because 0 opens a new session."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


# The fetcher's side.


@value
class SessionRequest:
    """What a request says of its session; to be put into a `FetchRequest`."""

    session_id: int
    session_epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten_topics: tuple[ForgottenTopic, ...]


class FetchSession:
    """One fetcher's session with one leader. Each request is followed by `response_received` or `request_failed`
    before the next is made. Topics carry name and id, so that a request can be sent in any version.
    """

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._sent: dict[TopicIdPartition, FetchPartition] = {}
        """What the leader knows, if it got the last request."""
        self._asked: dict[tuple[str | UUID, int], TopicIdPartition] = {}

    def next_request(
        self, wanted: Mapping[TopicIdPartition, FetchPartition], touched: Iterable[TopicIdPartition] | None = None
    ) -> SessionRequest:
        """The request that makes the leader answer all of `wanted`: all of it, or the difference to the last one, which
        is among `touched` where that is given.
        """
        if self._epoch == INITIAL_EPOCH:
            self._sent, self._asked = {}, {}
            touched = None
        sent = self._sent
        if touched is None:
            touched = [*(key for key in sent if key not in wanted), *wanted]
        changed: list[tuple[TopicIdPartition, FetchPartition]] = []
        forgotten: list[tuple[TopicIdPartition, int]] = []
        for key in touched:
            partition, before = wanted.get(key), sent.get(key)
            if is_same_partition(partition, before):
                continue
            if partition is None:
                forgotten.append((key, key.partition))
                continue
            changed.append((key, partition))
            sent[key] = partition
            if before is None:
                self._asked[key.topic_id, key.partition] = self._asked[key.topic, key.partition] = key
        for key, number in forgotten:
            del sent[key]
            for name in (key.topic_id, key.topic):
                if self._asked.get((name, number)) == key:
                    del self._asked[name, number]
        return SessionRequest(
            self._id,
            self._epoch,
            tuple([FetchTopic(tuple(group), key.topic, key.topic_id) for key, group in _by_topic(changed)]),
            tuple([ForgottenTopic(tuple(group), key.topic, key.topic_id) for key, group in _by_topic(forgotten)])
            if forgotten
            else (),
        )

    def response_received(self, response: FetchResponse) -> dict[TopicIdPartition, FetchPartitionResponse]:
        """The answers of a response; of an incremental one only those with news. KafkaError if it cannot be used: the
        next request then asks for everything again.
        """
        code = response.error_code
        if code is not ErrorCode.none:
            self._restart(is_known=code is not ErrorCode.fetch_session_id_not_found)
            raise KafkaError(code, "the leader refuses the fetch")
        answers = self._matched(response)
        if self._epoch == INITIAL_EPOCH and answers.keys() != self._sent.keys():
            self._restart()
            missing = sorted(map(str, self._sent.keys() - answers.keys()))
            raise KafkaError(ErrorCode.unknown_server_error, f"the leader leaves out {', '.join(missing)}")
        if response.session_id == NO_SESSION_ID:
            self._restart(is_known=False)
        else:
            self._id, self._epoch = response.session_id, next_epoch(self._epoch)
        return answers

    def request_failed(self) -> None:
        """There was no response: whether the leader took in the request is not known."""
        self._restart()

    def asked(self) -> Mapping[tuple[str | UUID, int], TopicIdPartition]:
        """What the last request asks for, by the topic's id and by its name: the leader may use either."""
        return self._asked

    def _matched(self, response: FetchResponse) -> dict[TopicIdPartition, FetchPartitionResponse]:
        asked = self._asked
        answers: dict[TopicIdPartition, FetchPartitionResponse] = {}
        for topic in response.topics:
            name = topic.topic_id or topic.topic
            for answer in topic.partitions:
                key = asked.get((name, answer.partition))
                if key is None:
                    self._restart()
                    raise KafkaError(
                        ErrorCode.unknown_server_error, f"the leader answers {name}-{answer.partition} unasked"
                    )
                answers[key] = answer
        return answers

    def _restart(self, *, is_known: bool = True) -> None:
        """Let the next request open a new session, and close the old one if the leader may know it."""
        if not is_known:
            self._id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH


def is_same_partition(wanted: FetchPartition | None, before: FetchPartition | None) -> bool:
    """Whether the same is asked of a partition, or it is not asked for as before. Cheap where it has got ahead."""
    if wanted is None or before is None or wanted is before:
        return wanted is before
    return wanted.fetch_offset == before.fetch_offset and wanted == before


def _by_topic(items: Iterable[tuple[TopicIdPartition, T]]) -> list[tuple[TopicIdPartition, list[T]]]:
    """Neighbours of one topic together, named by the first; the order stays, for it says who is served first."""
    groups: list[tuple[TopicIdPartition, list[T]]] = []
    for key, item in items:
        if groups and (groups[-1][0].topic, groups[-1][0].topic_id) == (key.topic, key.topic_id):
            groups[-1][1].append(item)
        else:
            groups.append((key, [item]))
    return groups
