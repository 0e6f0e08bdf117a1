"""Every transcript of `testdata`, the real code behind it. Ids are the rows that they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.tests.fetcher.transcript_commands import Transcript
from tierfetch.tests.transcripts import check, parse, render

TESTDATA = Path(__file__).parent / "testdata"


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
async def test_transcript(path: Path, rewrite: bool) -> None:
    await check(path, Transcript().run, rewrite=rewrite)


def test_every_line_of_a_transcript_survives_a_rewrite() -> None:
    for path in TESTDATA.glob("*.txt"):
        text = path.read_text()
        assert render([(step, step.expected) for step in parse(text)]) == text
