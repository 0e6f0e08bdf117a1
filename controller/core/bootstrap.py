"""The first records of a new cluster: the levels that it begins at.

Only metadata.version is finalized, at the newest level; every other feature begins at 0 and is raised by an operator.
An existing cluster keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..image.image import METADATA_VERSION, MetadataImage
from ..records import FeatureLevelRecord, MetadataRecord
from .config import SUPPORTED_FEATURES


def first_records(image: MetadataImage, formatted: Sequence[MetadataRecord] = ()) -> Iterator[MetadataRecord]:
    """Yield the first records, with those that formatting has prepared; nothing unless the log is new."""
    if image.metadata_version == 0:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=SUPPORTED_FEATURES[METADATA_VERSION].max_level)
        yield from formatted
