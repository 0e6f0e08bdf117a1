"""Why a TLS handshake failed, in words."""

from __future__ import annotations

import re
import ssl
from typing import Final

_ALERT: Final = re.compile(r"^(?:ssl|tls)v\d+ alert ")
"""How OpenSSL begins its name of an alert: with the version that introduced it, whichever is spoken."""


def tls_failure(error: Exception) -> str:
    """Return in words why a TLS handshake failed, or a connection ended by it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if reason in ("wrong version number", "http request", "record layer failure", "unexpected message"):
            return f"the peer does not speak TLS ({reason})"
        return _ALERT.sub("the peer's TLS alert is: ", reason)
    closed = "the peer closed the connection" if isinstance(error, ConnectionError) else type(error).__name__
    return str(error) or closed
