"""The transcripts of the quorum's core, by row of what must work: `pytest -k Q6` runs `Q6-*.txt` (`--rewrite`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..transcripts import check
from .transcript_commands import Replica

DIRECTORY = Path(__file__).parents[1] / "testdata" / "raft"


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.txt")), ids=lambda path: path.stem)
async def test_transcript(path: Path, rewrite: bool) -> None:
    await check(path, Replica().run, rewrite=rewrite)
