"""`tierfetch random-uuid`: an id for a new cluster, or for the directory of a first voter."""

from __future__ import annotations

import uuid

import click

from ..protocol import uuid_to_text
from .options import json_option, report


@click.command("random-uuid")
@json_option
def random_uuid(as_json: bool) -> None:
    """Print a new random id: of a cluster, or of a controller's log directory.

    Make it once, and give the same one to every node of the cluster.

    \b
      tierfetch random-uuid
    """
    made = new_id()
    report(as_json, {"uuid": made}, made)


def new_id() -> str:
    """Never begins with a dash: tools would take it for an option."""
    while (text := uuid_to_text(uuid.uuid4())).startswith("-"):
        continue
    return text
