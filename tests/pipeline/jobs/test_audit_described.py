"""The audit of a tier of Aiven's plugin: its objects, its manifests and the remote log metadata, compared"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tierfetch.pipeline.access.options import parse
from tierfetch.pipeline.access.stores import SegmentStore, StoreRef, open_store
from tierfetch.pipeline.jobs.audit_described import audit_described
from tierfetch.remote.contents import check_contents
from tierfetch.remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.remote.survey import enter_segment
from tierfetch.tests.fakes.aiven_tier import AivenWriter
from tierfetch.tests.fakes.random_tier import PARTITION, History, Segment, segments


@pytest.fixture
def uploads() -> list[Segment]:
    rng = random.Random(1)
    history = History().run([("plain", -1, 10)] * 12 + [("transactional", 0, 5), ("abort", 0, 1)], rng)
    return list(segments(history, [4, 8], rng))


@pytest.fixture
def stems(tmp_path: Path, uploads: list[Segment]) -> list[Path]:
    writer = AivenWriter(tmp_path, 1000, compresses=True)
    for one in uploads:
        writer.write(one.metadata, one.log, one.indexes)
    return writer.written


def store_at(root: Path) -> SegmentStore:
    return open_store(parse({"location": str(root), "topics": PARTITION.topic}), StoreRef(str(root), "aiven"))


def metadata(uploads: list[Segment]) -> RemoteLogLedger:
    ledger = RemoteLogLedger(PARTITION)
    for one in uploads:
        enter_segment(ledger, one.metadata)
    return ledger


async def found(root: Path, known: RemoteLogLedger | None = None) -> list[tuple[str, str]]:
    """Kind and message, contents included."""
    store = store_at(root)
    report, there = await audit_described(store, PARTITION, known)
    assert report.segments == len(there)
    read = [finding for segment in there for finding in await check_contents(segment, store)]
    await store.close()
    return [(finding.kind.value, finding.message) for finding in (*report.findings, *read)]


async def test_P2_a_sound_tier(tmp_path: Path, stems: list[Path], uploads: list[Segment]) -> None:
    assert len(stems) == 3
    assert await found(tmp_path) == []
    assert await found(tmp_path, metadata(uploads)) == []


def cut(stem: Path) -> None:
    log = stem.with_suffix(".log")
    log.write_bytes(log.read_bytes()[:-1])


def flip(stem: Path) -> None:
    log = stem.with_suffix(".log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


def lie(stem: Path) -> None:
    manifest = stem.with_suffix(".rsm-manifest")
    document = json.loads(manifest.read_text())
    document["remoteLogSegmentMetadata"]["startOffset"] += 1
    manifest.write_text(json.dumps(document))


def lose(suffix: str) -> Callable[[Path], None]:
    return lambda stem: stem.with_suffix(suffix).unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, {"wrong size": "bytes where its manifest says", "gap": "no finished segment"}),
        (flip, {"corrupt": "offsets [40, 79]"}),
        (lie, {"corrupt": "describes a segment from offset 41", "gap": "no finished segment"}),
        (lose(".log"), {"missing": ".log not", "gap": "no finished segment"}),
        (lose(".indexes"), {"missing": ".indexes not", "gap": "no finished segment"}),
        (lose(".rsm-manifest"), {"orphan": "no manifest", "gap": "no finished segment"}),
        (lambda stem: stem.with_suffix(".txt").write_text("mine"), {"foreign": "4 bytes that are foreign"}),
    ],
)
async def test_P2_damage_is_found(
    tmp_path: Path, stems: list[Path], damage: Callable[[Path], None], said: dict[str, str]
) -> None:
    damage(stems[1])
    findings = await found(tmp_path)
    assert {kind for kind, _ in findings} == set(said)
    assert all(said[kind] in message for kind, message in findings)


async def test_P2_indexes_of_the_youngest_segment_that_were_cut(tmp_path: Path, stems: list[Path]) -> None:
    stems[-1].with_suffix(".indexes").write_bytes(b"")
    findings = await found(tmp_path)
    assert {kind for kind, _ in findings} == {"corrupt"}
    assert all("0 bytes instead of" in message for _, message in findings)


async def test_P2_what_the_metadata_knows_better(tmp_path: Path, stems: list[Path], uploads: list[Segment]) -> None:
    """A segment that it does not know, one that the tier lacks, one of another size, and a copy that is under way."""
    first, second, third = (one.metadata for one in uploads)
    known = RemoteLogLedger(PARTITION)
    for stated in (replace(first, end_offset=first.end_offset - 1), third):
        enter_segment(known, stated)
    for suffix in (".log", ".indexes", ".rsm-manifest"):
        stems[2].with_suffix(suffix).unlink()
    findings = await found(tmp_path, known)
    assert [kind for kind, _ in findings] == ["orphan", "corrupt", "missing"]
    assert findings[1][1] == f"its manifest says {_described(first)}, the remote log metadata {_described(first, -1)}"
    assert findings[2][1] == f"{_described(third)}: no manifest"
    known.apply(second)
    stems[1].with_suffix(".rsm-manifest").unlink()
    assert [kind for kind, _ in await found(tmp_path, known)] == ["corrupt", "missing"]


async def test_P2_what_is_being_deleted_is_nobodys_fault(
    tmp_path: Path, stems: list[Path], uploads: list[Segment]
) -> None:
    known = metadata(uploads)
    started = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
    known.apply(RemoteLogSegmentMetadataUpdate(uploads[0].metadata.segment_id, started, 1, 1))
    stems[0].with_suffix(".log").unlink()
    assert await found(tmp_path, known) == []


def _described(segment: RemoteLogSegmentMetadata, more: int = 0) -> str:
    return f"offsets [{segment.start_offset}, {segment.end_offset + more}], {segment.segment_size_in_bytes} bytes"
