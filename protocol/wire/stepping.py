"""Reading and writing in steps: a generator that yields where other work may have its turn, and returns its result.

`run_to_end(steps)` is the same without other work in between. A loop over an array calls `is_step_over()` of its reader
or writer at each element, and yields if it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from .primitives import Writer

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)
Steps = Generator[None, None, T]


def run_to_end(steps: Steps[T]) -> T:
    """Return what the steps return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class TopicAnswers(Protocol[AnswerT_co]):
    """The answers for the partitions of one topic, which is named as in the request."""

    @property
    def topic(self) -> str: ...

    @property
    def topic_id(self) -> UUID | None: ...

    @property
    def partitions(self) -> Sequence[AnswerT_co]: ...


def topic_steps(
    writer: Writer,
    topics: Sequence[TopicAnswers[AnswerT]],
    write: Callable[[Writer, AnswerT, int], None],
    version: int,
    *,
    by_id: bool,
) -> Steps[None]:
    """Write the topics of a response; `write` writes the answer for one partition."""
    writer.array_length(len(topics))
    for topic in topics:
        if writer.is_step_over():
            yield
        writer.topic(topic.topic, topic.topic_id, by_id=by_id)
        writer.array_length(len(topic.partitions))
        for partition in topic.partitions:
            if writer.is_step_over():
                yield
            write(writer, partition, version)
        writer.end_structure()
