"""How long the plan of a partition of many segments takes, by layout: from a cold start to the list of splits.

Segments are tiny, so that the disk holds ten thousand; the plan looks at none of their bytes, but for the ends of logs
in Kafka's layout, where no manifest says where they end.
"""

from __future__ import annotations

import json
import os
import pickle
import time
import uuid
from pathlib import Path

from tierfetch.log.core import EpochEntry, encode_snapshot
from tierfetch.log.core.checkpoints import encode_leader_epochs
from tierfetch.pipeline.access.options import parse
from tierfetch.pipeline.planning.driver import planning
from tierfetch.pipeline.planning.table import TablePlanner, TableSplit
from tierfetch.protocol import uuid_to_text

from ..measure import Results
from .segments import TOPIC, TierWriter, batch

SEGMENTS = 10_000
SYSTEM = "tierfetch"


def run(base: Path, results: Results, runs: int) -> None:
    for layout, make in (("manifests", manifests), ("LocalTieredStorage", tier)):
        root = base / layout
        make(root)
        options = parse({"location": str(root), "topics": TOPIC})
        case = f"plan of {SEGMENTS:,} segments from {layout}"
        for _ in range(runs):
            began, cpu_began = time.perf_counter(), time.process_time()
            splits = planning(options, all_splits)
            planned_at, cpu_s = time.perf_counter(), time.process_time() - cpu_began
            assert len(splits) == SEGMENTS, len(splits)
            for split in splits:
                pickle.dumps(split)
            results.add("spark", case, SYSTEM, "time", planned_at - began, "s")
            results.add("spark", case, SYSTEM, "CPU time", cpu_s, "s")
            results.add("spark", case, SYSTEM, "time to pickle the splits", time.perf_counter() - planned_at, "s")


async def all_splits(planner: TablePlanner) -> list[TableSplit]:
    return [
        split
        for extent in await planner.extents()
        for split in await planner.splits(extent, await planner.bounds(extent))
    ]


def tier(root: Path) -> None:
    writer, one = TierWriter(root), batch(1, 100)
    for _ in range(SEGMENTS):
        writer.segment(one, 1, 1)


def manifests(root: Path) -> None:
    """Write manifests of segments of a gigabyte each that are holes in the disk: a plan reads none of them."""
    topic_id, size = uuid.uuid4(), 1 << 30
    directory = root / f"{TOPIC}-{uuid_to_text(topic_id)}" / "0"
    directory.mkdir(parents=True)
    indexes = {"snapshot": encode_snapshot([]), "epochs": encode_leader_epochs([EpochEntry(0, 0)])}
    snapshot, epochs = len(indexes["snapshot"]), len(indexes["epochs"])
    for number in range(SEGMENTS):
        segment_id = uuid_to_text(uuid.uuid4())
        stem = directory / f"{number * 1000:020d}-{segment_id}"
        stem.with_suffix(".log").touch()
        os.truncate(stem.with_suffix(".log"), size)
        stem.with_suffix(".indexes").write_bytes(b"".join(indexes.values()))
        ranges = {
            "offset": {"position": 0, "size": 0},
            "timestamp": {"position": 0, "size": 0},
            "producerSnapshot": {"position": 0, "size": snapshot},
            "leaderEpoch": {"position": snapshot, "size": epochs},
            "transaction": None,
        }
        described = {
            "remoteLogSegmentId": {
                "topicIdPartition": {
                    "topicId": uuid_to_text(topic_id),
                    "topicPartition": {"topic": TOPIC, "partition": 0},
                },
                "id": segment_id,
            },
            "startOffset": number * 1000,
            "endOffset": number * 1000 + 999,
            "maxTimestampMs": number,
            "brokerId": 1,
            "eventTimestampMs": 0,
            "segmentLeaderEpochs": {"0": number * 1000},
        }
        chunks = {
            "type": "fixed",
            "originalChunkSize": 4 << 20,
            "originalFileSize": size,
            "transformedChunkSize": 4 << 20,
            "finalTransformedChunkSize": 4 << 20,
        }
        document = {
            "version": "1",
            "chunkIndex": chunks,
            "segmentIndexes": ranges,
            "compression": False,
            "remoteLogSegmentMetadata": described,
        }
        stem.with_suffix(".rsm-manifest").write_text(json.dumps(document))
