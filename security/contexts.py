"""A TLS context that follows its files: a new connection gets the newest that could be loaded.

    files change -> load: usable -> new connections get it
                          not    -> one ERROR line; new connections get the one before

Connections that exist keep what they have. Kafka reloads a keystore when its dynamic config is set; ours does then too,
and by itself within a second of the change.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Final

from .core.settings import SecurityConfigError, TlsSettings

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 1.0


class WatchedFiles:
    """Whether files have changed: their times and sizes, looked at when a connection is made, at most once a second.
    `now_s` is a monotonic clock.
    """

    def __init__(self, paths: Sequence[str], now_s: Callable[[], float]) -> None:
        self._paths = paths
        self._now_s = now_s
        self._seen = self._look()
        self._checked_s = now_s()

    def have_changed(self) -> bool:
        """Whether a file differs from what it was when this last returned True, or at the start."""
        now_s = self._now_s()
        if now_s < self._checked_s + CHECK_INTERVAL_S:
            return False
        self._checked_s = now_s
        seen = self._look()
        has_changed, self._seen = seen != self._seen, seen
        return has_changed

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stamp, self._paths))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class ReloadingContext:
    """`make` builds a context from settings; it is called at once, and SecurityConfigError is the caller's then."""

    def __init__(
        self,
        name: str,
        settings: TlsSettings,
        make: Callable[[TlsSettings], ssl.SSLContext],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._make = make
        self._now_s = now_s
        self.settings = settings
        self._files = WatchedFiles(settings.files, now_s)
        self._context = make(settings)

    def get(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        if self._files.have_changed():
            try:
                self._context = self._make(self.settings)
            except SecurityConfigError as error:
                log.error("%s: changed TLS files cannot be used, the ones before stay in use: %s", self._name, error)
            else:
                log.info("%s: TLS files have changed and are in use for new connections", self._name)
        return self._context

    def replace(self, settings: TlsSettings) -> None:
        """Use other settings from now on. SecurityConfigError if they cannot be used; then nothing changes."""
        context = self._make(settings)
        self.settings, self._context = settings, context
        self._files = WatchedFiles(settings.files, self._now_s)
