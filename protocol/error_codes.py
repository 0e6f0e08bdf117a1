"""Kafka's error codes, from kio; imported before anything else of kio.

kio imports hypothesis where that is installed, to register strategies that nothing here uses. That costs a node and a
command a quarter of a second of their start on every machine that also tests with hypothesis.
"""

from __future__ import annotations

import sys

__all__ = ["ErrorCode"]

_is_hidden = "hypothesis" not in sys.modules
if _is_hidden:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # which makes its import fail
try:
    from kio.schema.errors import ErrorCode
finally:
    if _is_hidden:
        del sys.modules["hypothesis"]
