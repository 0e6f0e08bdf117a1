"""Files that hold secrets: read, with a warning if other users of the machine can read them too."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from .core.settings import SecurityConfigError, is_secret

log = logging.getLogger(__name__)


def read_file(location: str, key: str) -> bytes:
    """Return a file's bytes. SecurityConfigError names the key."""
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise SecurityConfigError(f"{key}={location}: cannot be read: {error.strerror}") from None


def read_secret_file(location: str, key: str) -> bytes:
    """Return the bytes of a file that holds a secret; warn if other users of the machine can read it."""
    data = read_file(location, key)
    warning = readable_by_all(Path(location))
    if warning is not None:
        log.warning("%s", warning)
    return data


def readable_by_all(path: Path) -> str | None:
    """Return a warning if every user of the machine can read a file with secrets."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
    if not mode & stat.S_IROTH:
        return None
    return f"{path} holds secrets and every user can read it (mode {mode:04o}): expected 0600; chmod 600 it"


def secrets_readable(path: Path, properties: Iterable[str]) -> list[str]:
    """Return a warning if a node's file has keys that are secrets, and every user can read it."""
    warning = readable_by_all(path) if any(map(is_secret, properties)) else None
    return [] if warning is None else [warning]
