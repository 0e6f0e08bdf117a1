"""Questions to one leader, gathered: what is asked while a request is under way goes into the next one.

    no request of the kind is under way   asked at once, in the caller's own task
    one is under way                      waits until it has ended; then one request asks for all that wait

So a lone replica waits for nothing, and a thousand that begin together cost their leader a few requests, not a thousand
each. A kind is what one request can ask: the offsets for one timestamp, or the ends of leader epochs.

* A request has a partition once: leaders reject one that names it twice. A second question about it, which only a
  replica that was removed and added again has, waits for the request after.
* Each caller gets its own partition's answer, or its error. An error of the request as such is raised in all callers.
* A cancelled caller is left out of later requests. If it has a request of its own under way, that one ends, and what
  waits is asked next all the same.
* The callers bound how many wait: a bootstrap under way asks one question of a kind at a time. A caller waits for two
  requests at most, and each has its deadline, unless more than `PARTITIONS_MAX` wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from ..light_dataclass import dataclass
from ..protocol import KafkaError, TopicPartition

KindT = TypeVar("KindT", bound=Hashable)
QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

PARTITIONS_MAX: Final = 500
"""The number of partitions in one request: a few ms of the leader's loop."""


@dataclass(slots=True, eq=False)
class _Waiting(Generic[QuestionT, AnswerT]):
    """A question that waits, and its caller's future."""

    partition: TopicPartition
    question: QuestionT
    answer: asyncio.Future[AnswerT]


class GatheredQuestions(Generic[KindT, QuestionT, AnswerT]):
    """The questions to one leader. `ask` sends one request: it returns an answer or an error for each partition, or
    raises the error of the request as such.
    """

    def __init__(
        self,
        ask: Callable[
            [KindT, Mapping[TopicPartition, QuestionT]], Awaitable[Mapping[TopicPartition, AnswerT | KafkaError]]
        ],
    ) -> None:
        self._ask = ask
        self._waiting: dict[KindT, list[_Waiting[QuestionT, AnswerT]]] = {}
        """The questions that wait, by kind; a kind is in it while a request for it is under way."""
        self._requests: dict[asyncio.Task[None], None] = {}
        """The requests for callers that have waited."""
        self._is_closed = False

    async def answer(self, kind: KindT, partition: TopicPartition, question: QuestionT) -> AnswerT:
        """Return the leader's answer for this partition. Raise the partition's error, or that of the request."""
        waiting = self._waiting.get(kind)
        if waiting is not None:
            future: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
            waiting.append(_Waiting(partition, question, future))
            return await _seen(future)
        self._waiting[kind] = []
        try:
            answers = await self._ask(kind, {partition: question})
        finally:
            self._ask_next(kind)
        answer = answers[partition]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def close(self) -> None:
        """Cancel all that wait for an answer or for a request, but for callers with a request of their own."""
        self._is_closed = True
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    def _ask_next(self, kind: KindT) -> None:
        """No request of the kind is under way: ask for those that wait, if any do."""
        batch = self._take(kind)
        if self._is_closed or not batch:
            for waiting in (*batch, *self._waiting.pop(kind)):
                waiting.answer.cancel()
            return
        request = asyncio.create_task(self._ask_for(kind, batch), name=f"questions-{kind}")
        self._requests[request] = None
        request.add_done_callback(lambda _: self._asked(kind, batch, request))

    def _asked(self, kind: KindT, batch: Sequence[_Waiting[QuestionT, AnswerT]], request: asyncio.Task[None]) -> None:
        """The request has ended, perhaps by a cancellation before it began."""
        del self._requests[request]
        for waiting in batch:
            waiting.answer.cancel()
        self._ask_next(kind)

    def _take(self, kind: KindT) -> Sequence[_Waiting[QuestionT, AnswerT]]:
        """Take what one request can ask, each partition once; the rest waits on."""
        batch: dict[TopicPartition, _Waiting[QuestionT, AnswerT]] = {}
        rest = []
        for waiting in self._waiting[kind]:
            if waiting.answer.done():  # cancelled
                continue
            if len(batch) < PARTITIONS_MAX and waiting.partition not in batch:
                batch[waiting.partition] = waiting
            else:
                rest.append(waiting)
        self._waiting[kind] = rest
        return tuple(batch.values())

    async def _ask_for(self, kind: KindT, batch: Sequence[_Waiting[QuestionT, AnswerT]]) -> None:
        try:
            answers = await self._ask(kind, {waiting.partition: waiting.question for waiting in batch})
            found = [answers[waiting.partition] for waiting in batch]
        except Exception as error:  # noqa: BLE001 - the callers are supervised, and each of them waits for this
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
        else:
            for waiting, answer in zip(batch, found, strict=True):
                _settle(waiting.answer, answer)


async def _seen(future: asyncio.Future[AnswerT]) -> AnswerT:
    """Await it. An error that comes with a cancellation counts as seen: asyncio would report it as lost."""
    try:
        return await future
    except asyncio.CancelledError:
        if not future.cancelled() and future.done():
            future.exception()
        raise


def _settle(future: asyncio.Future[AnswerT], answer: AnswerT | KafkaError) -> None:
    if future.done():
        return
    if isinstance(answer, KafkaError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
