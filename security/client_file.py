"""The file that Java's tools take as `--command-config`, read as they read it: client properties by their names.

Keys that do not concern connections, such as `client.id`, are passed over: one file serves several tools.
"""

from __future__ import annotations

import io
from pathlib import Path

import javaproperties

from .client import ClientIdentity, open_client
from .core.settings import SecurityConfigError, client_settings
from .secret_files import read_secret_file

COMMAND_CONFIG = "--command-config"


def read_client_file(path: Path, name: str = COMMAND_CONFIG) -> ClientIdentity | None:
    """Return the identity that a file says, None for PLAINTEXT. SecurityConfigError names the file; `name` is the
    option that gave it.
    """
    data = read_secret_file(str(path), name)
    try:
        properties: dict[str, str] = javaproperties.load(io.BytesIO(data))
        return open_client(client_settings(properties))
    except (javaproperties.InvalidUEscapeError, UnicodeDecodeError) as error:
        raise SecurityConfigError(f"{path}: not a properties file: {error}") from None
    except SecurityConfigError as error:
        raise SecurityConfigError(f"{path}: {error}") from None
