"""Answers without a decision: in every version of every API; and requests that a broker passes on."""

from __future__ import annotations

from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_writer

from tierfetch.controller.core.machine import HANDLERS
from tierfetch.controller.core.refusals import refusal
from tierfetch.controller.envelope import unwrap
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, read_response, write_request
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.wire.entities import build_entity
from tierfetch.tests.protocol.plain_messages import request_body

NOT_ACTIVE = KafkaError(ErrorCode.not_controller, "another one is")
VERSIONS = [(api, version) for api in HANDLERS for version in range(api.min_version, api.max_version + 1)]


class Asked:
    """Stands for a request of any kind that asks for one thing of each."""

    def __init__(self, api: ApiKey, version: int) -> None:
        if api is ApiKey.DELETE_TOPICS and version < 6:
            self.topic_names = ("t",)
        self.topics = (Topic(),)
        self.resources = (Resource(),)


class Topic:
    name = "t"
    topic_id = UUID(int=500)


class Resource:
    resource_type = 2
    resource_name = "t"


def find_codes(value: Any) -> set[ErrorCode]:
    if isinstance(value, dict):
        found = {value["error_code"]} if "error_code" in value else set()
        return found.union(*map(find_codes, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(find_codes, value))
    return set()


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_request_can_be_refused(api: ApiKey, version: int) -> None:
    response = refusal(api, Asked(api, version), NOT_ACTIVE)
    assert find_codes(response) == {ErrorCode.not_controller}
    response_type = api.response_type(version)
    entity_writer(response_type)(BytesIO(), build_entity(response_type, response))


def context() -> RequestContext:
    return RequestContext(ApiKey.ENVELOPE, 0, "broker", 7, "peer", "CONTROLLER", 0.0)


class Envelope:
    def __init__(self, data: bytes) -> None:
        self.request_data = data


def wrapped(api: ApiKey, version: int, values: dict[str, Any]) -> Envelope:
    parts = write_request(RequestHeader(api, version, 99, "client"), request_body(api, values))
    return Envelope(b"".join(bytes(part) for part in parts)[4:])


async def test_the_request_inside_an_envelope_is_answered_as_if_it_had_come_alone() -> None:
    seen = []

    async def handle(inner: RequestContext, body: Any) -> Any:
        seen.append((inner.api, inner.api_version, inner.client_id, inner.connection_id, body.topics[0].name))
        return {"responses": [{"name": "t", "topic_id": UUID(int=5), "error_code": 0, "error_message": None}]}

    values = {"topics": [{"name": "t", "topic_id": None}], "timeout_ms": 5}
    answer = await unwrap(context(), wrapped(ApiKey.DELETE_TOPICS, 6, values), {ApiKey.DELETE_TOPICS: handle})
    assert seen == [(ApiKey.DELETE_TOPICS, 6, "client", 7, "t")]
    assert answer["error_code"] is ErrorCode.none
    data = answer["response_data"]
    assert int.from_bytes(data[:4], "big") == 99, "the client's own correlation id"
    assert read_response(ApiKey.DELETE_TOPICS, 6, memoryview(data)).responses[0].name == "t"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.invalid_request),
        (b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff", ErrorCode.unsupported_version),
        (bytes.fromhex("0014 0006 00000001 ffff 00 05").replace(b" ", b""), ErrorCode.invalid_request),
        (wrapped(ApiKey.VOTE, 0, {"cluster_id": None, "topics": []}).request_data, ErrorCode.unsupported_version),
    ],
)
async def test_envelopes_around_something_else_are_refused(data: bytes, code: ErrorCode) -> None:
    answer = await unwrap(context(), Envelope(data), {})
    assert (answer["error_code"], answer["response_data"]) == (code, None)
