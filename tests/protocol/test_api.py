"""The API table against kio's schemas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from kio.schema.index import schema_name_map
from kio.schema.request_header.v2.header import RequestHeader as FlexibleRequestHeader
from kio.schema.response_header.v1.header import ResponseHeader as FlexibleResponseHeader

from tierfetch.protocol.api import ApiKey, VersionRange

ALL_VERSIONS = [(api, version) for api in ApiKey for version in range(api.min_version, api.max_version + 1)]


@pytest.mark.parametrize("api", ApiKey, ids=lambda api: api.name)
def test_the_name_and_the_oldest_version_are_the_schemas(api: ApiKey) -> None:
    assert api.request_type(api.max_version).__api_key__ == int(api)
    # InitProducerId 6 is unstable. The pattern of ListTransactions 2 has no bound of time.
    # After SaslHandshake 0 no frame has a header, which no client has done since 1.0.
    left_out = {ApiKey.INIT_PRODUCER_ID: {6}, ApiKey.SASL_HANDSHAKE: {0}}
    versions = set(schema_name_map[api.name.lower()]) - left_out.get(api, set())
    assert set(range(api.min_version, api.max_version + 1)) == versions


@pytest.mark.parametrize(("api", "version"), ALL_VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_headers_and_flexibility_are_the_schemas(api: ApiKey, version: int) -> None:
    request: Any
    response: Any
    request, response = api.request_type(version), api.response_type(version)
    assert (request.__version__, response.__version__) == (version, version)
    assert request.__flexible__ == response.__flexible__ == api.is_flexible(version)
    assert (request.__header_schema__ is FlexibleRequestHeader) == api.is_flexible(version)
    assert (response.__header_schema__ is FlexibleResponseHeader) == api.has_flexible_response_header(version)


def test_newest_common_version() -> None:
    assert VersionRange(3, 7).newest_common(VersionRange(0, 5)) == 5
    assert VersionRange(3, 7).newest_common(VersionRange(7, 9)) == 7
    assert VersionRange(3, 7).newest_common(VersionRange(0, 2)) is None


def test_supports_only_the_range() -> None:
    assert [version for version in range(-1, 20) if ApiKey.FETCH.supports(version)] == list(range(4, 19))


def test_importing_server_and_client_loads_no_schema() -> None:
    """All schemas take seconds to import; a process that serves Produce and Fetch needs none of them."""
    script = """
import sys
from typing import Any
import tierfetch.protocol.net.client, tierfetch.protocol.net.server
print([name for name in sys.modules if name.startswith("kio.schema.") and name.endswith((".request", ".response"))])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
