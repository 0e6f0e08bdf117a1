"""A controller process whose state machine appends one number after another while it leads.

    python -m tierfetch.tests.process.appending_controller CONFIG ACKED

Each number that is committed is appended to the file ACKED as a line, before the next one is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from tierfetch.broker.environment import NodeEnvironment
from tierfetch.protocol.errors import KafkaError
from tierfetch.quorum.controller_config import load_controller_config
from tierfetch.quorum.core.state import LeaderAndEpoch
from tierfetch.quorum.listener import CommittedBatch, SnapshotContent
from tierfetch.quorum.node import QuorumNode
from tierfetch.quorum.service import open_quorum


class Counting:
    """The state is the largest number committed."""

    def __init__(self, node: QuorumNode, acked: Path) -> None:
        self.node = node
        self.largest = 0
        self._acked = acked
        self._task: asyncio.Task[None] | None = None

    def on_commit(self, batch: CommittedBatch) -> None:
        for record in batch.records:
            self.largest = max(self.largest, int(record))

    def on_load_snapshot(self, snapshot: SnapshotContent) -> None:
        raise AssertionError(f"no snapshot is ever cut: {snapshot}")

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        if self._task is not None:
            self._task.cancel()
        if leader.leader_id == self.node.node_id:
            self._task = asyncio.create_task(self._append(leader.epoch))

    async def _append(self, epoch: int) -> None:
        number = self.largest
        with self._acked.open("a") as file:
            while True:
                number += 1
                try:
                    await self.node.append_and_commit(epoch, [b"%d" % number])
                except KafkaError:
                    return
                file.write(f"{number}\n")
                file.flush()


async def main(config_path: str, acked: str) -> None:
    config, _ = load_controller_config(Path(config_path))
    async with open_quorum(config, NodeEnvironment()) as service:
        await service.begin([Counting(service.node, Path(acked))])
        await service.node.failed


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    asyncio.run(main(*sys.argv[1:]))
