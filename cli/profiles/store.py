"""The profiles of a user: a JSON file in the user's configuration folder, readable by the user alone.

A profile has no secret: its command config is the path of a file. The file is replaced as a whole, so that a reader
never sees half of it. A damaged file is reported with its path, and is changed by no command.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...protocol import OperatorError

APPLICATION: Final = "tierfetch"
FILE: Final = "profiles.json"


class ProfilesFileError(OperatorError):
    """The file of profiles cannot be read or written."""


class Profile(BaseModel):
    """A cluster by name: the servers to ask first, and how to connect to them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: tuple[str, ...] = Field(min_length=1)
    command_config: Path | None = None


class Profiles(BaseModel):
    """All profiles of a user. `in_use` is the one that commands take if nothing else is said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    in_use: str | None = None
    profiles: Mapping[str, Profile] = Field(default_factory=dict)


def config_folder() -> Path:
    """Return the user's folder: `~/.config/tierfetch`, or what the system has in its place."""
    return Path(click.get_app_dir(APPLICATION))


def read_profiles() -> Profiles:
    """Return the profiles; none where there is no file yet. ProfilesFileError."""
    path = config_folder() / FILE
    try:
        return Profiles.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Profiles()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProfilesFileError(
            f"{path} is damaged: {where + ': ' if where else ''}{first['msg']}; correct it, or remove it and add the"
            " profiles again"
        ) from None
    except OSError as error:
        raise ProfilesFileError(f"{path} cannot be read: {error.strerror}") from None


def write_profiles(profiles: Profiles) -> None:
    """Replace the file, with mode 0600. ProfilesFileError."""
    path = config_folder() / FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, profiles.model_dump(mode="json"))
    except OSError as error:
        raise ProfilesFileError(f"{path} cannot be written: {error.strerror}") from None


def write_private(path: Path, document: object) -> None:
    """Replace a file by one that only the user may read. OSError."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
