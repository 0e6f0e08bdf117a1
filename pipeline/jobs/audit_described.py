"""The audit of a partition in a layout whose segments describe themselves (Aiven's manifests): what is found without
reading their logs.

| finding     | means                                                                           |
|-------------|---------------------------------------------------------------------------------|
| MISSING     | a manifest without its log or indexes; a finished segment that has no manifest   |
| WRONG_SIZE  | the log's object has another size than its manifest says                        |
| CORRUPT     | a manifest that is none, or that contradicts the remote log metadata            |
| GAP, OFF_LINEAGE | as everywhere (`remote.audit`)                                             |
| ORPHAN      | objects without a manifest; a segment that the remote log metadata does not know |
| FOREIGN     | an object whose name is none of the layout's                                    |
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol import TopicIdPartition
from ...remote import AuditReport, Sighting, check_lineage, enter_segment
from ...remote.core import Finding, FindingKind, RemoteLogLedger, RemoteLogSegmentMetadata
from ..access.stores import SegmentStore


async def audit_described(
    store: SegmentStore, partition: TopicIdPartition, known: RemoteLogLedger | None
) -> tuple[AuditReport, tuple[RemoteLogSegmentMetadata, ...]]:
    """And the segments, as they describe themselves. `known` is the remote log metadata's. RemoteStorageError."""
    sighting = await store.sight(partition)
    there = RemoteLogLedger(partition)
    for segment in sighting.described:
        enter_segment(there, segment)
    findings = [*sighting.findings] if known is None else [*_compare(known, sighting)]
    findings += await check_lineage(there, store)
    segments = tuple(there.finished())
    return AuditReport(len(segments), there.finished_size_bytes, tuple(findings)), segments


def _compare(known: RemoteLogLedger, sighting: Sighting) -> Iterator[Finding]:
    """What is being copied or deleted right now is not damage."""
    finished = {segment.segment_id: segment for segment in known.finished()}
    states = {str(segment.segment_id) for segment in known.segments()}
    under_way = states - {str(segment_id) for segment_id in finished}
    reported = {finding.subject for finding in sighting.findings}
    yield from (finding for finding in sighting.findings if finding.subject not in under_way)
    there = {segment.segment_id: segment for segment in sighting.described}
    for segment_id, segment in there.items():
        if str(segment_id) not in states:
            message = f"{segment.segment_size_in_bytes} bytes of a segment that the remote log metadata does not know"
            yield Finding(FindingKind.ORPHAN, str(segment_id), message, segment.start_offset)
    for segment_id, segment in finished.items():
        if segment_id in there:
            if (found := _described(there[segment_id])) != (stated := _described(segment)):
                message = f"its manifest says {found}, the remote log metadata {stated}"
                yield Finding(FindingKind.CORRUPT, str(segment_id), message, segment.start_offset)
        elif str(segment_id) not in reported:
            yield Finding(
                FindingKind.MISSING, str(segment_id), f"{_described(segment)}: no manifest", segment.start_offset
            )


def _described(segment: RemoteLogSegmentMetadata) -> str:
    return f"offsets [{segment.start_offset}, {segment.end_offset}], {segment.segment_size_in_bytes} bytes"
