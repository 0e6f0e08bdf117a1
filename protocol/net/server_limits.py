"""What one listener allows its connections; the table is in `server`."""

from __future__ import annotations

from typing import Final

from ...light_dataclass import dataclass

UNLIMITED: Final = 2**31 - 1
"""Kafka's default for the limits of connections by address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Sizes in bytes; the table in `server` says what each one does."""

    connections_max: int = 10_000
    connections_per_ip_max: int = UNLIMITED
    connection_rate_max: int = UNLIMITED
    request_size_max: int = 100 * 1024 * 1024
    fetch_request_size_max: int = 16 * 1024 * 1024
    in_flight_max: int = 16
    request_memory_max: int = 128 * 1024 * 1024
    fetch_memory_max: int = 64 * 1024 * 1024
    idle_timeout_s: float = 600.0
    receive_timeout_s: float = 60.0
    progress_window_s: float = 10.0
    progress_bytes_min: int = 64 * 1024
    send_timeout_s: float = 600.0
    send_buffer_size: int | None = None
