"""Offsets of a share group without members, which an operator sets, deletes and looks at (KIP-932).

| row                   | request                                                      | what must hold              |
|-----------------------|--------------------------------------------------------------|-----------------------------|
| alter share offsets   | AlterShareGroupOffsets: the group begins there, new or not   | it is said so from then on, |
| delete share offsets  | DeleteShareGroupOffsets: of the topic nothing is left        | by each coordinator         |
| look at share offsets | DescribeShareGroupOffsets                                    |                             |

Of a request that fails, or is not answered, it is not known whether it takes effect: the next one is about another
group. Nothing is said where a log of coordinators has lost something (`has_lost`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from random import Random
from typing import Final

from ....protocol import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, ErrorCode, TopicPartition
from ....protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ....protocol.net import Address
from ...judges.core.partition import InvariantViolationError
from ..client import AttemptFailedError
from ..workers.coordinators import OF_GROUPS, CoordinatorClient, LaterError

OFFSET_MAX: Final = 1_000
NOWHERE: Final = -1
LOGS: Final = (GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC)


class ShareOffsets:
    """`partitions` are those of one topic."""

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        addresses: Sequence[Address],
        rng: Random,
        has_lost: Callable[[str], bool],
    ) -> None:
        self._topic = partitions[0].topic
        self._numbers = tuple(partition.partition for partition in partitions)
        self._client = CoordinatorClient("resets-share-groups", addresses, rng)
        self._has_lost = has_lost
        self._groups = count(1)
        self.changed: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        """Begin with a group that nothing was asked about."""
        self._group = f"reset-{next(self._groups)}"
        self.known: dict[int, int] = {}
        """Where the group begins, by partition; absent where nothing was said."""

    async def alter(self, rng: Random) -> None:
        """Let the group begin somewhere, in some of the partitions."""
        offsets = {number: rng.randint(0, OFFSET_MAX) for number in rng.sample(self._numbers, rng.randint(1, 2))}
        asked = AlterShareGroupOffsetsRequestTopic(
            topic_name=self._topic,
            partitions=tuple(
                AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
                for number, offset in offsets.items()
            ),
        )
        request = AlterShareGroupOffsetsRequest(group_id=self._group, topics=(asked,))
        with suppress(AttemptFailedError, LaterError):
            answer = await self._client.ask(OF_GROUPS, self._group, request)
            codes = [each.error_code for topic in answer.responses for each in topic.partitions]
            if {answer.error_code, *codes} == {ErrorCode.none} and len(codes) == len(offsets):
                self.changed["share offsets altered"] += 1
                self.known |= offsets
                return
        self._begin()

    async def delete(self) -> None:
        """Forget where the group is in the topic."""
        topics = (DeleteShareGroupOffsetsRequestTopic(topic_name=self._topic),)
        request = DeleteShareGroupOffsetsRequest(group_id=self._group, topics=topics)
        with suppress(AttemptFailedError, LaterError):
            answer = await self._client.ask(OF_GROUPS, self._group, request)
            if {answer.error_code, *(topic.error_code for topic in answer.responses)} == {ErrorCode.none}:
                self.changed["share offsets deleted"] += 1
                self.known = dict.fromkeys(self._numbers, NOWHERE)
                return
        self._begin()

    async def look(self) -> None:
        """Ask where the group is. InvariantViolationError if it is elsewhere."""
        topic = DescribeShareGroupOffsetsRequestTopic(topic_name=self._topic, partitions=self._numbers)
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self._group, topics=(topic,))
        with suppress(AttemptFailedError, LaterError):
            answer = await self._client.ask(OF_GROUPS, self._group, DescribeShareGroupOffsetsRequest(groups=(group,)))
            (found,) = answer.groups
            if found.error_code is ErrorCode.group_id_not_found:
                self.check(dict.fromkeys(self._numbers, NOWHERE))
            elif found.error_code is ErrorCode.none:
                parts = [each for topic in found.topics for each in topic.partitions]
                found_at = {
                    each.partition_index: each.start_offset for each in parts if each.error_code is ErrorCode.none
                }
                self.check(found_at)
                self.changed["share offsets found"] += len(found_at.keys() & self.known.keys())

    def check(self, found_at: dict[int, int]) -> None:
        """InvariantViolationError if an answer is not what was acknowledged last."""
        if any(self._has_lost(topic) for topic in LOGS):
            return
        for number, offset in found_at.items():
            known = self.known.get(number, offset)
            if offset != known:
                detail = f"{self._group} begins at {offset} in {self._topic}-{number}, acknowledged was {known}"
                raise InvariantViolationError("share offsets stay", detail)

    async def close(self) -> None:
        await self._client.close()
