"""What `pytest --secure` makes of the clusters of the harness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierfetch.cli.command_config import VARIABLE
from tierfetch.cli.local.nodes import LocalNodes
from tierfetch.cli.local.security import LocalSecurity

PLAINTEXT_ALONE = "needs listeners without security, or has security of its own"


@contextmanager
def secured_clusters(directory: Path) -> Iterator[None]:
    """Every cluster is secured, and every client, command and process that a test starts gets in."""
    security = LocalSecurity(directory / "secrets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalNodes, "security", security)
        patch.setenv(VARIABLE, str(security.client_file))
        yield


def leave_out_plaintext(config: pytest.Config, item: pytest.Item, *, if_it_uses: str | None = None) -> None:
    """Let the test skip with `--secure` if its marker says so. It gets the marker if it uses that fixture."""
    if if_it_uses in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.plaintext)
    if config.getoption("--secure") and item.get_closest_marker("plaintext") is not None:
        item.add_marker(pytest.mark.skip(reason=PLAINTEXT_ALONE))
