"""One family of requests each: from a decoded request to its response, over the broker's services.

Produce and Fetch have values of their own (`protocol.wire.produce`, `protocol.fetch.wire`); the APIs of `codec.TYPED`
have the classes of `protocol.messages`. All others get kio's entity of the version that was asked for, and answer with
plain values, from which the codec takes the fields of that version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Plain = Mapping[str, Any]
"""Fields of a response, or of a part of it, by name; see `protocol.wire.entities`."""
