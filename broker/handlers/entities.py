"""A handler's answer, written once for all versions, as the response of the version that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.api import ApiKey
from ...protocol.entities import build_entity

Plain = Mapping[str, Any]
"""Fields of an entity by name; see `protocol.entities`."""


def respond(request: Any, values: Plain) -> Any:
    """The response to a decoded request; fields that its version does not have are left out."""
    return build_entity(ApiKey(request.__api_key__).response_type(request.__version__), values)
