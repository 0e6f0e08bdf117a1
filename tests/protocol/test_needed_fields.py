"""What an older version would leave out of a request is refused, where Apache Kafka's schemas do not allow it"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from tierfetch.protocol.messages.needed_fields import NEEDED_SINCE
from tierfetch.protocol.messages.registry import MESSAGES
from tierfetch.protocol.messages.topics import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from tierfetch.protocol.messages.versions import lowered
from tierfetch.protocol.requests import CONTROLLER_ENDPOINTS, cluster_of, metadata_of

SCHEMAS = Path(distribution("kafka-python").locate_file("kafka/protocol/schemas/resources"))
CONVERTED = {"CoordinatorKeys", "Groups", "Members", "Topics"}
"""What `versions` makes of an old form, or makes an old form of."""
LEFT_OUT = {"AckWhenCommitted"}
"""What we leave out of an older version on purpose; `needed_fields` says why."""


def schemas_of_kafka() -> Iterator[dict[str, Any]]:
    """Yield the requests of kafka-python's copy of Apache Kafka's schemas."""
    for file in sorted(SCHEMAS.glob("*Request.json")):
        yield json.loads(re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE))


def needed_by_kafka(schema: dict[str, Any], api: ApiKey) -> dict[str, int]:
    """Return the request's own fields that came later than the oldest version, and may not be left out."""
    since = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", field["name"]).lower(): int(re.split(r"\D", field["versions"])[0])
        for field in schema["fields"]
        if not field.get("ignorable") and field["name"] not in CONVERTED | LEFT_OUT
    }
    return {name: version for name, version in since.items() if api.min_version < version <= api.max_version}


@pytest.mark.parametrize("schema", list(schemas_of_kafka()), ids=lambda schema: schema["name"])
def test_the_table_is_that_of_kafkas_schemas(schema: dict[str, Any]) -> None:
    apis = [api for api in MESSAGES if int(api) == schema["apiKey"]]
    if not apis or schema["name"] not in {cls.__name__ for cls in NEEDED_SINCE}:
        assert not any(needed_by_kafka(schema, api) for api in apis)
        return
    (ours,) = (fields for cls, fields in NEEDED_SINCE.items() if cls.__name__ == schema["name"])
    theirs = needed_by_kafka(schema, apis[0])
    newer_than_their_copy = {"cordoned_log_dirs"}
    assert {name: version for name, version in ours.items() if name not in newer_than_their_copy - theirs.keys()} == (
        theirs
    )


DRY_RUN = UpdateFeaturesRequest(
    feature_updates=(FeatureUpdateKey(feature="f", max_version_level=1),), validate_only=True
)
UNCLEAN = ElectLeadersRequest(election_type=1, topic_partitions=None, timeout_ms=1)
SAME_SIZE = AlterPartitionReassignmentsRequest(timeout_ms=1, topics=(), allow_replication_factor_change=False)


@pytest.mark.parametrize(
    ("request_", "since", "field"),
    [
        (DRY_RUN, 1, "validate_only"),
        (UNCLEAN, 1, "election_type"),
        (SAME_SIZE, 1, "allow_replication_factor_change"),
        (metadata_of(["t"]), 4, "allow_auto_topic_creation"),
        (cluster_of(CONTROLLER_ENDPOINTS), 1, "endpoint_type"),
    ],
)
def test_a_field_that_would_be_lost_is_an_unsupported_version(request_: Any, since: int, field: str) -> None:
    with pytest.raises(KafkaError, match=f"version {since - 1} has no {field}") as caught:
        lowered(request_, since - 1)
    assert caught.value.code is ErrorCode.unsupported_version
    assert lowered(request_, since) == request_


def test_a_field_that_holds_its_default_fits_every_version() -> None:
    for version in (0, 1, 2):
        asked = replace(UNCLEAN, election_type=0)
        assert write_request(RequestHeader(ApiKey.ELECT_LEADERS, version, 1, None), asked)
