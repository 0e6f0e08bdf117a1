"""A profile as a page: what there is, when it came, how it is packed, what is uneven, what compaction would leave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...byte_text import rate, size
from ...extras import needing
from ...pages import (
    LOOKS,
    REST,
    Bars,
    Look,
    Made,
    Markup,
    Series,
    Tile,
    chart,
    moment,
    page,
    paragraph,
    percent,
    plain_number,
    quiet,
    rows_height,
    section,
    table,
    tiles,
    topic_looks,
    verdict,
)
from .profile_report import RateBucket, TierProfile, TopicProfile

TOPICS_CHARTED_MAX: Final = 9
"""The largest; the others are charted as one."""
BUCKETS_CHARTED_MAX: Final = 16
"""Rows of the chart of data over time; of more, neighbours are drawn as one."""
OTHERS: Final = "all others"
CODEC_LOOKS: Final[dict[str, Look]] = dict(zip(("zstd", "none", "lz4", "snappy", "gzip"), LOOKS, strict=False))
ADVICE_MAX: Final = 5
BATCH_BYTES_SMALL: Final = 4096
KEY_SHARE_LARGE: Final = 0.2
MIB: Final = 1 << 20


def profile_page(found: TierProfile, made: Made) -> str:
    """The whole HTML document. MissingExtraError."""
    with needing("spark"):
        charts = [_rates(found), _codecs(found), _skew(found)]
        if found.has_keys:
            charts.append(_compaction(found))
    parts = [_tiles(found), _table(found), *(part for part in charts if part is not None)]
    return page(f"Profile of {found.tier}", _advice(found), quiet(_lead(found)), parts, made)


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


def _advice(found: TierProfile) -> Markup:
    """What an operator may want to act on, in one box."""
    said = [f"{topic.topic}: {text}" for topic in found.topics for text in _worth_a_look(topic)]
    if said:
        rest = [f"And {len(said) - ADVICE_MAX:,} more like these."] if len(said) > ADVICE_MAX else []
        return verdict(said[0], "warn", *said[1:ADVICE_MAX], *rest)
    return verdict("Nothing stands out: batches are well filled, keys and partitions are even.", "good")


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


def _largest(found: TierProfile, most: int) -> list[TopicProfile]:
    return sorted(found.topics, key=lambda topic: -topic.size_bytes)[:most]


def _mib(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.3g}"


def _rates(found: TierProfile) -> Markup | None:
    ordered = _largest(found, len(found.topics))
    looks = topic_looks(topic.topic for topic in ordered[:TOPICS_CHARTED_MAX])
    shown = [(topic.topic, looks[topic.topic], topic.rates) for topic in ordered[:TOPICS_CHARTED_MAX]]
    if others := ordered[TOPICS_CHARTED_MAX:]:
        shown.append((OTHERS, REST, _merged([bucket for topic in others for bucket in topic.rates])))
    starts = sorted({bucket.start_ms for _, _, rates in shown for bucket in rates})
    if not starts:
        return None
    width = -(-len(starts) // BUCKETS_CHARTED_MAX)
    spans = [starts[at : at + width] for at in range(0, len(starts), width)]
    series = [Series(name, look, _summed(rates, spans)) for name, look, rates in shown]
    sums = [sum(one.values[at] for one in series) for at in range(len(spans))]
    rows = [
        (moment(span[0]), *(size(one.values[at] * MIB) for one in series), size(sums[at] * MIB))
        for at, span in enumerate(spans)
    ]
    each = f"each {_duration(found.bucket_ms)}" if width == 1 else f"each {width} buckets that have data"
    text = f"Bytes of the batches that came in {each}, by their timestamps, as stored. From each beginning, in UTC."
    names = [moment(span[0])[: 16 if found.bucket_ms >= 60_000 else 19] for span in spans]
    picture = chart(
        f"MiB stored in {each}",
        f"Stacked bars of the MiB that each topic stored, {names[0]} to {names[-1]}",
        Bars(names, series, "MiB", _mib, is_stacked=True),
        table(("from", *(one.name for one in series), "all"), rows),
        height=rows_height(len(rows)) + 16 * len(series),
    )
    return section("Data over time", paragraph(text), picture)


def _summed(rates: list[RateBucket], spans: list[list[int]]) -> list[float]:
    """Return the MiB of each span of buckets."""
    by_start = {bucket.start_ms: bucket.size_bytes for bucket in rates}
    return [sum(by_start.get(start_ms, 0) for start_ms in span) / MIB for span in spans]


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


def _codecs(found: TierProfile) -> Markup:
    topics = _largest(found, 2 * TOPICS_CHARTED_MAX)
    names = sorted({name for topic in topics for name in topic.codecs})
    sizes = {name: [topic.codecs[name].size_bytes if name in topic.codecs else 0 for topic in topics] for name in names}
    series = [
        Series(name, CODEC_LOOKS.get(name, LOOKS[5]), [value / MIB for value in values])
        for name, values in sizes.items()
    ]
    rows = [(topic.topic, *(size(sizes[name][at]) for name in names)) for at, topic in enumerate(topics)]
    picture = chart(
        "MiB as stored, by codec",
        f"Stacked bars: the MiB of each codec in {len(topics)} topics",
        Bars([topic.topic for topic in topics], series, "MiB", _mib, is_stacked=True),
        table(("topic", *names), rows),
        height=rows_height(len(topics)),
    )
    return section("Codecs", paragraph("How the batches of each topic are compressed, by bytes as stored."), picture)


def _skew(found: TierProfile) -> Markup:
    topics = sorted(found.topics, key=lambda topic: -topic.partition_skew)[: 2 * TOPICS_CHARTED_MAX]
    looks = topic_looks(topic.topic for topic in topics)
    text = (
        "The largest partition by the mean of all: 1 is even; 2 means that one partition has twice its share, and "
        "so do its leader, its followers and their replacements."
    )
    skews = Series("skew", LOOKS[0], [topic.partition_skew for topic in topics])
    picture = chart(
        "Largest partition by the mean",
        f"A bar for each of {len(topics)} topics; the dotted line at 1 is an even topic",
        Bars(
            [topic.topic for topic in topics],
            [skews],
            "times its share",
            plain_number,
            row_looks=[looks[topic.topic] for topic in topics],
            labels=[f"{topic.partition_skew:.2f}" for topic in topics],
            limit=1.0,
        ),
        table(
            ("topic", "partitions", "skew"),
            [(topic.topic, len(topic.partitions), f"{topic.partition_skew:.2f}") for topic in topics],
        ),
        height=rows_height(len(topics)),
    )
    return section("Skew of partitions", paragraph(text), picture)


def _compaction(found: TierProfile) -> Markup:
    counted = [(topic.topic, topic.keys) for topic in found.topics if topic.keys is not None]
    shown = sorted(counted, key=lambda pair: -pair[1].payload_bytes)[: 2 * TOPICS_CHARTED_MAX]
    gone = [keys.payload_bytes - keys.kept_bytes for _, keys in shown]
    series = [
        Series("kept", LOOKS[0], [keys.kept_bytes / MIB for _, keys in shown]),
        Series("removed by compaction", LOOKS[1], [value / MIB for value in gone]),
    ]
    text = (
        "Of keys and values as clients see them: what would stay if each key kept its last record alone, and what "
        "compaction would remove. Records without a key cannot be compacted and count as kept."
    )
    picture = chart(
        "MiB of keys and values",
        f"Stacked bars: kept and removed by compaction, for each of {len(shown)} topics",
        Bars([name for name, _ in shown], series, "MiB", _mib, is_stacked=True),
        table(
            ("topic", "kept", "removed by compaction"),
            [(name, size(keys.kept_bytes), size(less)) for (name, keys), less in zip(shown, gone, strict=True)],
        ),
        height=rows_height(len(shown)),
    )
    return section("Compaction potential", paragraph(text), picture)


def _duration(ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")):
        if ms >= unit_ms:
            return unit if ms == unit_ms else f"{ms // unit_ms} {unit}s"
    raise AssertionError(f"a bucket of {ms} ms")
