"""The first records of a new cluster: the levels that it begins at, and what formatting has prepared.

| feature | level |
|---|---|
| named by formatting (`tierfetch format --feature`) | that one; 0 is none |
| of `NEW_CLUSTER_LEVELS` | as there: those of Kafka's own `kafka-storage format`, as far as our brokers serve them |
| any other | 0, until an operator raises it |

Where formatting names `metadata.version`, it was Kafka's: its tool leaves out only what is at 0, so all others are at
0, and brokers of the release that it was asked for are let in.

No broker has registered yet; one that does not support such a level is not let in. An existing cluster keeps what it
has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..image.image import METADATA_VERSION, MetadataImage
from ..records import FeatureLevelRecord, MetadataRecord
from .config import NEW_CLUSTER_LEVELS


def first_records(
    image: MetadataImage,
    formatted: Sequence[MetadataRecord] = (),
    levels: Mapping[str, int] = NEW_CLUSTER_LEVELS,
) -> Iterator[MetadataRecord]:
    """Yield the first records, with those that formatting has prepared; nothing unless the log is new."""
    if image.metadata_version > 0:
        return
    named = {each.name: each.feature_level for each in formatted if isinstance(each, FeatureLevelRecord)}
    for name, level in (named if METADATA_VERSION in named else {**levels, **named}).items():
        if level > 0:
            yield FeatureLevelRecord(name=name, feature_level=level)
    yield from (each for each in formatted if not isinstance(each, FeatureLevelRecord))
