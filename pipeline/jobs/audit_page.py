"""An audit as a page: is it sound, what is wrong, what does that mean, and where in each partition it is.

The picture of a partition is a strip along its offsets: a block for each segment, red where something is wrong, gaps
left open. Of many segments neighbours that are sound are drawn as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...byte_text import size
from ..pages import Markup, Tile, Tone, mark, moment, page, paragraph, section, table, tiles, verdict
from .audit_report import AuditedPartition, AuditedSegment, AuditFinding, TierAudit

PARTITIONS_SHOWN_MAX: Final = 500
FINDINGS_SHOWN_MAX: Final = 1000
MEANINGS: Final = {
    "missing": "A segment lacks one of its objects: its records cannot be read, or a new replica cannot adopt it.",
    "wrong size": "A log has another size than was stated when it was copied: it is cut, or another object.",
    "corrupt": "An object is not what its name says: a checksum, an offset, an epoch or an index entry is wrong.",
    "gap": "Offsets that no segment holds: consumers that read through them get an error.",
    "off lineage": "A segment of a leader that lost an unclean election. Nothing reads it; retention removes it.",
    "orphan": "Objects of a copy that was never finished, or is under way. They cost space, nothing reads them.",
    "stale copy": "A copy began over an hour ago and has not ended. The leader sweeps it and copies again.",
    "stale deletion": "A deletion began over an hour ago and has not ended. The leader continues it.",
    "foreign": "An object whose name is none of a tier's: foreign.",
}
_WIDTH: Final = 1000
_HEIGHT: Final = 22
_GREEN: Final = "#2da44e"
_RED: Final = "#cf222e"


def audit_page(found: TierAudit) -> str:
    """The whole HTML document."""
    how = "compared with the remote log metadata" if found.by_metadata else "by its objects alone"
    lead = f"Every byte read, {how}; ended {moment(found.finished_at_ms)}."
    parts = [_verdict(found), _tiles(found)]
    if found.not_checked:
        parts.append(paragraph(f"Not checked, without the remote log metadata: {'; '.join(found.not_checked)}."))
    if found.findings:
        parts += [_meanings(found), _findings(found)]
    return page(f"Audit of {found.tier}", lead, [*parts, _partitions(found)])


def _verdict(found: TierAudit) -> Markup:
    damage = sum(finding.is_damage for _, finding in found.findings)
    if damage:
        return verdict(f"Damaged: {_count(damage, 'finding')} about data that consumers or new replicas need.", "bad")
    if found.findings:
        return verdict(f"Sound, with {_count(len(found.findings), 'leftover')} that nothing reads.", "warn")
    return verdict("Sound: every batch, index and snapshot is what it should be, and no offset is missing.", "good")


def _tiles(found: TierAudit) -> Markup:
    return tiles(
        [
            Tile(f"{len(found.partitions):,}", "partitions"),
            Tile(f"{found.segments:,}", "segments"),
            Tile(size(found.size_bytes), "of logs read"),
            Tile(f"{found.batches:,}", "sound batches"),
            Tile(f"{found.records:,}", "records in them"),
            Tile(f"{len(found.findings):,}", "findings"),
        ]
    )


def _meanings(found: TierAudit) -> Markup:
    kinds: dict[str, list[AuditFinding]] = {}
    for _, finding in found.findings:
        kinds.setdefault(finding.kind, []).append(finding)
    rows = [(mark(kind, _tone(some[0])), len(some), MEANINGS[kind]) for kind, some in kinds.items()]
    return section("What was found", table(("finding", "how often", "what it means"), rows))


def _findings(found: TierAudit) -> Markup:
    shown = found.findings[:FINDINGS_SHOWN_MAX]
    rows = [
        (partition.name, mark(finding.kind, _tone(finding)), finding.subject, finding.message)
        for partition, finding in shown
    ]
    parts = [table(("partition", "finding", "of", "what it is"), rows)]
    if len(shown) < len(found.findings):
        parts.append(paragraph(f"And {len(found.findings) - len(shown):,} more: the Parquet files have all of them."))
    return section("Where", *parts)


def _partitions(found: TierAudit) -> Markup:
    ordered = sorted(found.partitions, key=lambda partition: (partition.is_sound, partition.name))
    shown = ordered[:PARTITIONS_SHOWN_MAX]
    rows = [
        (
            partition.name,
            mark("sound", "good") if partition.is_sound else mark("damaged", "bad"),
            len(partition.segments),
            size(partition.size_bytes),
            _offsets(partition.segments),
            _strip(partition),
        )
        for partition in shown
    ]
    parts = [table(("partition", "", "segments", "size", "offsets", "along its offsets"), rows)]
    if len(shown) < len(ordered):
        parts.append(paragraph(f"And {len(ordered) - len(shown):,} more partitions, all listed in the Parquet files."))
    return section("Partitions", *parts)


def _strip(partition: AuditedPartition) -> Markup:
    if not partition.segments:
        return Markup("")
    first = min(segment.start_offset for segment in partition.segments)
    end = max(segment.end_offset for segment in partition.segments) + 1
    scale = _WIDTH / (end - first)
    blocks = "".join(
        f'<rect x="{(start - first) * scale:.1f}" y="3" width="{max(2.0, (last + 1 - start) * scale - 1):.1f}" '
        f'height="{_HEIGHT - 6}" fill="{_GREEN if is_sound else _RED}"><title>{start:,} – {last:,}</title></rect>'
        for start, last, is_sound in sorted(_blocks(partition.segments, end - first), key=lambda block: not block[2])
    )
    # The background of the blocks: what shows through is a gap.
    ground = (
        f'<rect x="0" y="3" width="{_WIDTH}" height="{_HEIGHT - 6}" fill="#ffebe9" stroke="{_RED}" stroke-width=".5"/>'
    )
    return Markup(
        f'<div style="min-width:16rem"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" '
        f'style="height:{_HEIGHT}px">{ground}{blocks}</svg></div>'
    )


def _blocks(segments: Sequence[AuditedSegment], offsets: int) -> Iterator[tuple[int, int, bool]]:
    """(first, last, is sound), neighbours that could not be distinguished are joined."""
    narrow = offsets * 4 // _WIDTH
    block: tuple[int, int, bool] | None = None
    for segment in sorted(segments, key=lambda segment: (segment.start_offset, segment.end_offset)):
        here = (segment.start_offset, segment.end_offset, segment.is_sound)
        if block is None:
            block = here
        elif block[2] and here[2] and here[0] <= block[1] + 1 and here[1] - here[0] < narrow:
            block = (block[0], max(block[1], here[1]), True)
        else:
            yield block
            block = here
    if block is not None:
        yield block


def _offsets(segments: Sequence[AuditedSegment]) -> str:
    if not segments:
        return "–"
    return f"{min(one.start_offset for one in segments):,} – {max(one.end_offset for one in segments):,}"


def _tone(finding: AuditFinding) -> Tone:
    return "bad" if finding.is_damage else "warn"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
