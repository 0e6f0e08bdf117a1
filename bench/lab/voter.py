"""A replica of the quorum in a process of its own, without a state machine: `python -m bench.lab.voter CONFIG`."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from tierfetch.broker import NodeEnvironment
from tierfetch.quorum import load_controller_config, open_quorum


async def main(config_path: str) -> None:
    config, _ = load_controller_config(Path(config_path))
    async with open_quorum(config, NodeEnvironment()) as service:
        await service.begin()
        await service.node.failed


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    asyncio.run(main(*sys.argv[1:]))
