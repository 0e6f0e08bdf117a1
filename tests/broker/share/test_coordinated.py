"""What is said to a share coordinator."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from tierfetch.broker.share.coordinated import CoordinatedPersister
from tierfetch.broker.share.core.partition import StoredBatch
from tierfetch.broker.share.persister import ShareKey, StateWrite
from tierfetch.broker.share_state.client import ShareStateClient


class Client:
    def __init__(self) -> None:
        self.data: Any = None

    async def write(self, group_id: str, topic_id: UUID, data: Any) -> None:
        self.data = data


async def test_a_count_above_its_field_is_the_highest_that_there_is() -> None:
    client = Client()
    persister = CoordinatedPersister(cast(ShareStateClient, client))
    archived = StoredBatch(1, 2**31 + 1, 4, 1)
    write = StateWrite(state_epoch=0, leader_epoch=0, start_offset=0, completed=2**31 + 1, batches=(archived,))
    await persister.write_state(ShareKey("g", UUID(int=1), 0), write)
    assert client.data.delivery_complete_count == 2**31 - 1
