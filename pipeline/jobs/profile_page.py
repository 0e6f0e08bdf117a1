"""A profile as a page: what there is, when it came, how it is packed, what is uneven, what compaction would leave."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from ...byte_text import rate, size
from ..pages import (
    COLORS,
    Markup,
    Tile,
    charts,
    moment,
    page,
    paragraph,
    percent,
    row_height,
    section,
    styled,
    table,
    tiles,
    verdict,
)
from .profile_report import RateBucket, TierProfile, TopicProfile

TOPICS_CHARTED_MAX: Final = 9
"""The largest; the others are charted as one."""
OTHERS: Final = "all others"
BATCH_BYTES_SMALL: Final = 4096
KEY_SHARE_LARGE: Final = 0.2
MIB: Final = 1 << 20


def profile_page(found: TierProfile) -> str:
    """The whole HTML document. MissingExtraError."""
    sections = [
        (
            "Data over time",
            f"Bytes of the batches that came in each {_duration(found.bucket_ms)}, by their timestamps, as stored.",
            _rates(found),
        ),
        ("Codecs", "How the batches of each topic are compressed, by bytes as stored.", _codecs(found)),
        (
            "Skew of partitions",
            "The largest partition by the mean of all: 1 is even; 2 means that one partition has twice its share, and "
            "so do its leader, its followers and their replacements.",
            _skew(found),
        ),
    ]
    if found.has_keys:
        text = (
            "Of keys and values as clients see them: what would stay if each key kept its last record alone, and what "
            "compaction would remove. Records without a key cannot be compacted and count as kept."
        )
        sections.append(("Compaction potential", text, _compaction(found)))
    drawn = charts([figure for _, _, figure in sections])
    parts = [section(name, paragraph(text), chart) for (name, text, _), chart in zip(sections, drawn, strict=True)]
    return page(f"Profile of {found.tier}", _lead(found), [_tiles(found), *_advice(found), _table(found), *parts])


def _lead(found: TierProfile) -> str:
    known = [one for topic in found.topics for one in topic.partitions if one.first_timestamp_ms >= 0]
    if not known:
        return "No record has a timestamp."
    first = min(one.first_timestamp_ms for one in known)
    return f"Records from {moment(first)} to {moment(max(one.last_timestamp_ms for one in known))}."


def _tiles(found: TierProfile) -> Markup:
    partitions = sum(len(topic.partitions) for topic in found.topics)
    return tiles(
        [
            Tile(f"{len(found.topics):,}", "topics"),
            Tile(f"{partitions:,}", "partitions"),
            Tile(f"{sum(topic.segments for topic in found.topics):,}", "segments"),
            Tile(size(found.size_bytes), "stored"),
            Tile(f"{found.records:,}", "records"),
            Tile(size(found.size_bytes / max(1, found.records)), "a record, stored"),
        ]
    )


def _advice(found: TierProfile) -> list[Markup]:
    """What an operator may want to act on, in one box."""
    said = [f"{topic.topic}: {text}" for topic in found.topics for text in _worth_a_look(topic)]
    return [verdict(said[0], "warn", *said[1:])] if said else []


def _worth_a_look(topic: TopicProfile) -> Iterator[str]:
    packed = topic.size_bytes / max(1, topic.batches)
    if topic.batches and packed < BATCH_BYTES_SMALL and topic.records < 10 * topic.batches:
        yield (
            f"batches of {topic.records / topic.batches:.1f} records and {size(packed)} on average. A longer linger.ms "
            "makes them larger, and everything cheaper to read."
        )
    keys = topic.keys
    if keys is not None and keys.distinct_keys > 1 and keys.largest_key_records >= KEY_SHARE_LARGE * keys.records:
        share = percent(keys.largest_key_records / keys.records)
        yield f"one key has {share} of the records, and its partition with it."
    if topic.partition_skew >= 2:
        yield f"one partition has {topic.partition_skew:.1f} times its share."


def _table(found: TierProfile) -> Markup:
    rows = [
        (
            topic.topic,
            len(topic.partitions),
            topic.segments,
            size(topic.size_bytes),
            topic.records,
            size(topic.size_bytes / max(1, topic.records)),
            f"{topic.records / max(1, topic.batches):,.1f}",
            rate(topic.size_bytes / topic.seconds) if topic.seconds else "–",
            ", ".join(topic.codecs) or "–",
            *_key_cells(topic),
        )
        for topic in sorted(found.topics, key=lambda topic: -topic.size_bytes)
    ]
    headings = ["topic", "partitions", "segments", "stored", "records", "a record", "records a batch", "rate", "codecs"]
    keys = ["distinct keys", "tombstones", "largest key", "compaction would remove"] if found.has_keys else []
    return section("Topics", table([*headings, *keys], rows))


def _key_cells(topic: TopicProfile) -> list[str | int]:
    keys = topic.keys
    if keys is None:
        return []
    largest = f"{keys.largest_key_records / keys.records:.1%}" if keys.distinct_keys else "–"
    removable = f"{keys.removable_share:.0%}" if keys.distinct_keys else "no keys"
    return [keys.distinct_keys, keys.tombstones, largest, removable]


def _rates(found: TierProfile) -> Any:
    from plotly.graph_objects import Bar, Figure

    ordered = sorted(found.topics, key=lambda topic: -topic.size_bytes)
    shown = [(topic.topic, topic.rates) for topic in ordered[:TOPICS_CHARTED_MAX]]
    if others := ordered[TOPICS_CHARTED_MAX:]:
        shown.append((OTHERS, _merged([bucket for topic in others for bucket in topic.rates])))
    figure = Figure()
    for (name, rates), color in zip(shown, COLORS, strict=False):
        figure.add_trace(
            Bar(
                name=name,
                x=[datetime.fromtimestamp(bucket.start_ms / 1000, UTC) for bucket in rates],
                y=[bucket.size_bytes / MIB for bucket in rates],
                width=found.bucket_ms * 0.95,
                offset=0,
                marker_color=color,
                hovertemplate="%{x}: %{y:,.2f} MiB",
            )
        )
    figure.update_layout(barmode="stack", showlegend=True)
    return styled(figure, height=380, x_title="time (UTC)", y_title=f"MiB in each {_duration(found.bucket_ms)}")


def _merged(buckets: list[RateBucket]) -> list[RateBucket]:
    sums: dict[int, RateBucket] = {}
    for bucket in buckets:
        before = sums.get(bucket.start_ms)
        sums[bucket.start_ms] = (
            bucket
            if before is None
            else RateBucket(
                start_ms=bucket.start_ms,
                records=before.records + bucket.records,
                size_bytes=before.size_bytes + bucket.size_bytes,
            )
        )
    return [sums[start_ms] for start_ms in sorted(sums)]


def _codecs(found: TierProfile) -> Any:
    from plotly.graph_objects import Bar, Figure

    topics = sorted(found.topics, key=lambda topic: topic.size_bytes)[-2 * TOPICS_CHARTED_MAX :]
    names = sorted({name for topic in topics for name in topic.codecs})
    figure = Figure()
    for name, color in zip(names, COLORS, strict=False):
        sizes = [topic.codecs[name].size_bytes / MIB if name in topic.codecs else 0 for topic in topics]
        figure.add_trace(
            Bar(
                name=name,
                y=[topic.topic for topic in topics],
                x=sizes,
                orientation="h",
                marker_color=color,
                hovertemplate="%{y}: %{x:,.2f} MiB",
            )
        )
    figure.update_layout(barmode="stack", showlegend=True)
    return styled(figure, height=row_height(len(topics)), x_title="MiB, stored")


def _skew(found: TierProfile) -> Any:
    from plotly.graph_objects import Bar, Figure

    topics = sorted(found.topics, key=lambda topic: topic.partition_skew)[-2 * TOPICS_CHARTED_MAX :]
    skews = [topic.partition_skew for topic in topics]
    colors = [COLORS[4] if skew >= 2 else COLORS[0] for skew in skews]
    bar = Bar(
        y=[topic.topic for topic in topics],
        x=skews,
        orientation="h",
        marker_color=colors,
        texttemplate="%{x:.2f}",
        hovertemplate="%{y}: %{x:.2f}",
    )
    figure = styled(Figure([bar]), height=row_height(len(topics)), x_title="largest partition by the mean")
    figure.add_vline(x=1, line_dash="dot", line_color="#59636e")
    figure.update_xaxes(rangemode="tozero")
    return figure


def _compaction(found: TierProfile) -> Any:
    from plotly.graph_objects import Bar, Figure

    counted = [(topic.topic, topic.keys) for topic in found.topics if topic.keys is not None]
    shown = sorted(counted, key=lambda pair: pair[1].payload_bytes)[-2 * TOPICS_CHARTED_MAX :]
    kept = [keys.kept_bytes / MIB for _, keys in shown]
    gone = [(keys.payload_bytes - keys.kept_bytes) / MIB for _, keys in shown]
    figure = Figure()
    for label, values, color in (("kept", kept, COLORS[0]), ("removed by compaction", gone, COLORS[1])):
        figure.add_trace(
            Bar(
                name=label,
                y=[name for name, _ in shown],
                x=values,
                orientation="h",
                marker_color=color,
                hovertemplate="%{y}: %{x:,.2f} MiB",
            )
        )
    figure.update_layout(barmode="stack", showlegend=True)
    return styled(figure, height=row_height(len(shown)), x_title="MiB of keys and values")


def _duration(ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")):
        if ms >= unit_ms:
            return unit if ms == unit_ms else f"{ms // unit_ms} {unit}s"
    raise AssertionError(f"a bucket of {ms} ms")
