"""Does the tier hold what the remote log metadata says? The rules of `tier verify` and of `spark audit`.

| finding        | means                                                              | damage |
|----------------|--------------------------------------------------------------------|--------|
| MISSING        | a finished segment lacks one of its objects (of a transaction      | yes    |
|                | index that the metadata do not deny: see `aborts.py`)              |        |
| WRONG_SIZE     | its log has another size than the metadata states                  | yes    |
| CORRUPT        | an object cannot be what it is named (with `deep`: `contents.py`)  | yes    |
| GAP            | offsets of the lineage that no finished segment holds whole        | yes    |
| OFF_LINEAGE    | a finished segment of a history that lost an unclean election      | no     |
| ORPHAN         | an object of a segment that the metadata does not know             | no     |
| STALE_COPY     | a copy was started long ago and neither finished nor swept         | no     |
| STALE_DELETION | a deletion was started long ago and not finished                   | no     |
| FOREIGN        | an object whose name is none of ours                               | no     |

The lineage is the one that the youngest segment (by leader epoch, then offset) was uploaded with: its leader-epoch
checkpoint. Objects of segments that are being copied or deleted right now are nobody's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ..light_dataclass import dataclass
from ..log.core import CorruptFileError, LeaderEpochCache, decode_leader_epochs
from .aborts import fetch_transaction_index
from .contents import check_contents
from .core.findings import Finding, FindingKind
from .core.ledger import RemoteLogLedger
from .core.lineage import covering, is_within_lineage, youngest
from .core.segment import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState
from .storage import (
    IndexType,
    ReadsSegments,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageManager,
)
from .survey import Survey, part_name

STALE_AFTER_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What was found in one partition. The counts are of finished segments."""

    segments: int
    bytes: int
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """Nothing that is needed is damaged; leftovers may be there."""
        return not any(finding.kind.is_damage for finding in self.findings)


def ignore_progress(_: int) -> None:
    """Ignore progress."""


async def audit_ledger(
    ledger: RemoteLogLedger,
    storage: RemoteStorageManager,
    *,
    now_ms: int,
    deep: bool = False,
    stale_after_ms: int = STALE_AFTER_MS,
    on_read: Callable[[int], None] = ignore_progress,
) -> AuditReport:
    """Compare one partition's ledger with the store. `deep` also reads every byte, and calls `on_read` with how many
    bytes of logs it has done since the last time. RemoteStorageError if the store cannot be asked.
    """
    segments = ledger.segments()
    objects = [listed async for listed in storage.list_objects(ledger.partition)]
    findings = compare(segments, objects, now_ms=now_ms, stale_after_ms=stale_after_ms)
    lost = await _lost_transaction_indexes(ledger, objects, storage, {finding.subject for finding in findings})
    findings += [*lost, *await check_lineage(ledger, storage)]
    if deep:
        damaged = {finding.subject for finding in findings if finding.kind is FindingKind.MISSING or finding in lost}
        for segment in ledger.finished():
            if str(segment.segment_id) not in damaged:
                findings += await check_contents(segment, storage)
            on_read(segment.segment_size_in_bytes)
    return AuditReport(len(ledger.finished()), ledger.finished_size_bytes, tuple(findings))


def confirmed_report(first: AuditReport, second: AuditReport, ledger: RemoteLogLedger) -> AuditReport:
    """What `first` found that still holds by `second`, a later audit without `deep`, and by its ledger: what was
    corrupt is so if its segment is still there.
    """
    again = {(finding.kind, finding.subject) for finding in second.findings}
    finished = {str(metadata.segment_id) for metadata in ledger.finished()}
    findings = tuple(
        finding
        for finding in first.findings
        if (finding.kind, finding.subject) in again
        or (finding.kind is FindingKind.CORRUPT and finding.subject in finished)
    )
    return replace(first, findings=findings)


async def audit_survey(
    surveyed: Survey,
    storage: RemoteStorageManager,
    *,
    now_ms: int,
    deep: bool = False,
    on_read: Callable[[int], None] = ignore_progress,
) -> AuditReport:
    """As `audit_ledger`, of what the survey found. It names the orphans: nothing else knows of segments here."""
    report = await audit_ledger(surveyed.ledger, storage, now_ms=now_ms, deep=deep, on_read=on_read)
    others = [finding for finding in report.findings if finding.kind is not FindingKind.ORPHAN]
    return replace(report, findings=(*surveyed.findings, *others))


def compare(
    segments: Sequence[RemoteLogSegmentMetadata],
    objects: Collection[RemoteObject],
    *,
    now_ms: int,
    stale_after_ms: int,
) -> list[Finding]:
    """What the listing of the store says about the ledger's `segments`, in any state. Pure."""
    stored: dict[RemoteLogSegmentId, dict[IndexType | None, int]] = {}
    findings: list[Finding] = []
    known = {segment.segment_id for segment in segments}
    for listed in sorted(objects, key=lambda listed: listed.key):
        if listed.segment_id is None:
            findings.append(Finding(FindingKind.FOREIGN, listed.key, f"{listed.size} bytes of somebody else's"))
        elif listed.segment_id not in known:
            message = f"{listed.size} bytes of a segment that the remote log metadata does not know"
            findings.append(Finding(FindingKind.ORPHAN, listed.key, message))
        else:
            stored.setdefault(listed.segment_id, {})[listed.kind] = listed.size
    for segment in segments:
        parts = stored.get(segment.segment_id, {})
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            findings += _compare_finished(segment, parts)
        elif now_ms - segment.event_timestamp_ms > stale_after_ms:
            findings.append(_stale(segment, parts, now_ms))
    return findings


def _compare_finished(segment: RemoteLogSegmentMetadata, parts: Mapping[IndexType | None, int]) -> list[Finding]:
    subject = str(segment.segment_id)
    needed = (None, *(kind for kind in IndexType if kind is not IndexType.TRANSACTION))
    missing = [part_name(kind) for kind in needed if kind not in parts]
    if missing:
        return [Finding(FindingKind.MISSING, subject, f"{_offsets(segment)}: no {', '.join(missing)} in the tier")]
    if parts[None] != segment.segment_size_in_bytes:
        message = f"{_offsets(segment)}: {parts[None]} bytes where {segment.segment_size_in_bytes} are stated"
        return [Finding(FindingKind.WRONG_SIZE, subject, message)]
    return []


async def _lost_transaction_indexes(
    ledger: RemoteLogLedger, objects: Sequence[RemoteObject], storage: ReadsSegments, damaged: Collection[str]
) -> list[Finding]:
    """Return the findings of finished segments that are not `damaged`."""
    stored = {listed.segment_id for listed in objects if listed.kind is IndexType.TRANSACTION}
    findings: list[Finding] = []
    for segment in ledger.finished():
        subject = str(segment.segment_id)
        if segment.segment_id in stored or subject in damaged:
            continue
        try:
            await fetch_transaction_index(segment, storage)
        except (RemoteResourceNotFoundError, RemoteStorageCorruptError) as error:
            is_lost = isinstance(error, RemoteResourceNotFoundError)
            kind = FindingKind.MISSING if is_lost else FindingKind.CORRUPT
            findings.append(Finding(kind, subject, f"{_offsets(segment)}: {error}"))
    return findings


def _stale(segment: RemoteLogSegmentMetadata, parts: Mapping[IndexType | None, int], now_ms: int) -> Finding:
    is_copy = segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
    age_s = (now_ms - segment.event_timestamp_ms) // 1000
    message = (
        f"{_offsets(segment)}: {segment.state.name} by broker {segment.broker_id} {age_s} s ago; {len(parts)} objects"
    )
    kind = FindingKind.STALE_COPY if is_copy else FindingKind.STALE_DELETION
    return Finding(kind, str(segment.segment_id), message)


async def check_lineage(ledger: RemoteLogLedger, storage: ReadsSegments) -> list[Finding]:
    """Whether finished segments cover the history that the youngest of them was uploaded with. RemoteStorageError."""
    latest = youngest(ledger)
    if latest is None:
        return []
    try:
        entries = decode_leader_epochs(await storage.fetch_index(latest, IndexType.LEADER_EPOCH))
    except RemoteResourceNotFoundError:
        return []
    except (CorruptFileError, RemoteStorageCorruptError) as error:
        return [Finding(FindingKind.CORRUPT, str(latest.segment_id), f"leader epoch checkpoint: {error}")]
    epochs = LeaderEpochCache(entries)
    end_offset = latest.end_offset + 1
    findings = [
        Finding(
            FindingKind.OFF_LINEAGE, str(segment.segment_id), f"{_offsets(segment)} of {segment.segment_leader_epochs}"
        )
        for segment in ledger.finished()
        if not is_within_lineage(segment, epochs, end_offset)
    ]
    whole = [segment for segment in ledger.finished() if is_within_lineage(segment, epochs, end_offset)]
    start = whole[0].start_offset if whole else end_offset
    while (gap := covering(ledger, epochs, start, end_offset).gap) is not None:
        findings.append(Finding(FindingKind.GAP, str(gap), "no finished segment holds these offsets"))
        start = gap.end_offset
    return findings


def _offsets(segment: RemoteLogSegmentMetadata) -> str:
    return f"offsets [{segment.start_offset}, {segment.end_offset}]"
