"""The levels that a new cluster begins at, and what formatting may say of them."""

from __future__ import annotations

import pytest

from tierfetch.cli.format import level_records
from tierfetch.controller.core.bootstrap import first_records
from tierfetch.controller.core.config import NEW_CLUSTER_LEVELS, SERVED_FEATURES
from tierfetch.controller.image.image import METADATA_VERSION, MetadataImage
from tierfetch.controller.records import FeatureLevelRecord, UserScramCredentialRecord, decode_record

SCRAM = UserScramCredentialRecord(name="a", mechanism=1, salt=b"", stored_key=b"", server_key=b"", iterations=4096)


def level(name: str, number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=number)


def test_a_new_cluster_begins_at_the_newest_levels_that_are_served() -> None:
    records = list(first_records(MetadataImage()))
    assert records == [level(name, number) for name, number in NEW_CLUSTER_LEVELS.items()]
    assert records[0] == level(METADATA_VERSION, SERVED_FEATURES[METADATA_VERSION].max_level)
    ours_alone = {"kraft.version", "tierfetch.version"}
    assert {name: levels.max_level for name, levels in SERVED_FEATURES.items() if name not in ours_alone} == (
        NEW_CLUSTER_LEVELS
    )


def test_formatting_may_name_levels_and_add_records() -> None:
    formatted = [level("group.version", 0), level("tierfetch.version", 1), SCRAM]
    records = list(first_records(MetadataImage(), formatted))
    assert [record.name for record in records if isinstance(record, FeatureLevelRecord)] == [
        METADATA_VERSION,
        "transaction.version",
        "share.version",
        "tierfetch.version",
    ]
    assert records[-1] == SCRAM


def test_what_kafkas_tool_has_formatted_begins_at_its_levels_alone() -> None:
    """It writes metadata.version, and every level but 0: `--feature share.version=0` is a level that is left out."""
    formatted = [level(METADATA_VERSION, 25), level("group.version", 1), SCRAM]
    assert list(first_records(MetadataImage(), formatted)) == formatted


def test_a_cluster_that_exists_keeps_what_it_has() -> None:
    image = MetadataImage()
    image.features[METADATA_VERSION] = 29
    assert list(first_records(image, [SCRAM])) == []


def test_levels_are_read_as_kafkas_tool_reads_them() -> None:
    records = [decode_record(each).record for each in level_records(("group.version=0", " transaction.version=1"))]
    assert records == [level("group.version", 0), level("transaction.version", 1)]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("group.version",), "expected NAME=LEVEL, where NAME is one of eligible.leader.replicas.version, group.ver"),
        (("group.version=-1",), "found 'group.version=-1'"),
        (("metadata.version=29",), "found 'metadata.version=29'"),
        (("nothing=1",), "found 'nothing=1'"),
        (("transaction.version=3",), "transaction.version has levels 0 to 2 in this release, found 3"),
        (("group.version=0", "group.version=1"), "group.version is given twice"),
    ],
)
def test_a_level_that_is_not_there_is_refused(texts: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match="--feature: ") as error:
        level_records(texts)
    assert why in str(error.value)
