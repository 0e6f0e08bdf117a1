"""Pages: what comes from a tier is escaped, what is wrong comes first, and nothing is fetched from anywhere."""

from __future__ import annotations

import re

from tierfetch.pipeline.jobs.audit_page import MEANINGS, audit_page
from tierfetch.pipeline.jobs.audit_report import AuditedPartition, AuditedSegment, AuditFinding, TierAudit
from tierfetch.pipeline.pages import moment, table
from tierfetch.remote.core import FindingKind


def segment(start: int, end: int, *, is_sound: bool = True) -> AuditedSegment:
    return AuditedSegment(
        segment_id=f"id-{start}",
        start_offset=start,
        end_offset=end,
        size_bytes=1000,
        max_timestamp_ms=0,
        leader_epochs=[0],
        batches=3,
        records=end - start + 1,
        is_sound=is_sound,
    )


def audited(*findings: AuditFinding, segments: int = 3) -> TierAudit:
    listed = [segment(number * 10, number * 10 + 9, is_sound=not findings or number != 1) for number in range(segments)]
    damaged = AuditedPartition(topic="orders", partition=0, topic_id="x", segments=listed, findings=list(findings))
    sound = AuditedPartition(topic="a-first", partition=0, topic_id="y", segments=listed[:1], findings=[])
    return TierAudit(tier="tier", layout="kafka", finished_at_ms=0, by_metadata=False, partitions=[sound, damaged])


def test_every_kind_of_finding_is_explained() -> None:
    assert set(MEANINGS) == {kind.value for kind in FindingKind}


def test_damage_comes_first_and_is_escaped() -> None:
    leftover = AuditFinding(kind="foreign", subject="<script>alert(1)</script>", message="7 bytes", is_damage=False)
    damage = AuditFinding(kind="corrupt", subject="orders-0:id-10", message="CRC & all", is_damage=True)
    page = audit_page(audited(leftover, damage))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "Damaged: 1 finding about data" in page
    assert page.index("CRC &amp; all") < page.index("7 bytes")
    assert page.index(">orders-0<") < page.index(">a-first-0<")


def test_leftovers_are_no_damage_and_nothing_is_all_right() -> None:
    leftover = AuditFinding(kind="orphan", subject="k", message="m", is_damage=False)
    assert "Sound, with 1 leftover that nothing reads" in audit_page(audited(leftover))
    assert "Sound: every batch, index and snapshot" in audit_page(audited())


def test_a_page_needs_nothing_else() -> None:
    assert not re.search(r"(src|href)=|url\(|@import", audit_page(audited()))


def test_figures_stand_right_with_their_units_and_texts_do_not() -> None:
    cells = ("6 brokers", "12.7 MiB", "94%", "4 objects without a log", "2.5", "2026")
    written = table(("name", "size", "share", "what", "mean", "topic"), [cells]).html
    assert re.findall(r"<th( class=\"right\")?>(\w+)", written) == [
        ("", "name"),
        (' class="right"', "size"),
        (' class="right"', "share"),
        ("", "what"),
        (' class="right"', "mean"),
        ("", "topic"),
    ]


def test_neighbours_of_many_segments_are_drawn_as_one() -> None:
    page = audit_page(audited(segments=20_000))
    assert page.count("<rect") < 1000


def test_moments() -> None:
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    assert moment(-1) == "–"
