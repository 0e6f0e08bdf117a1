"""`tierfetch features`: feature levels of the cluster, and raising them (KIP-584)."""

from __future__ import annotations

import json
from typing import Final

import click
from rich.table import Table

from ...protocol.messages.cluster import ApiVersionsRequest, FeatureUpdateKey, UpdateFeaturesRequest
from ..cluster_session import Admin, bootstrap_option, run
from ..options import json_option, report, table_console

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
TIMEOUT_MS: Final = 30_000


@click.group("features")
def features() -> None:
    """Show and change the feature levels that the whole cluster runs at.

    \b
      tierfetch features describe
      tierfetch features set tierfetch.version 1
    """


@features.command("describe")
@bootstrap_option
@json_option
def describe_features(bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Show the finalized levels, and the levels that the asked broker supports.

    \b
      tierfetch features describe --json
    """

    async def ask(admin: Admin) -> list[dict[str, object]]:
        request = ApiVersionsRequest(client_software_name="tierfetch-cli", client_software_version="1")
        answer = await admin.send(request)
        levels = {item.name: item.max_version_level for item in answer.finalized_features}
        return [
            {"feature": item.name, "level": levels.get(item.name, 0), "min": item.min_version, "max": item.max_version}
            for item in sorted(answer.supported_features, key=lambda item: item.name)
        ]

    rows = run(bootstrap, ask)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table("feature", "finalized level", "supported from", "to")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    table_console().print(table)


@features.command("set", short_help="Finalize a feature at a level, if every node supports it.")
@click.argument("feature")
@click.argument("level", type=click.IntRange(0))
@click.option("--downgrade", is_flag=True, help="Allow a lower level than the present one.")
@click.option("--unsafe", is_flag=True, help="Allow a level that loses metadata.")
@click.option("--dry-run", is_flag=True, help="Only check whether it is possible.")
@bootstrap_option
@json_option
def set_feature(
    feature: str,
    level: int,
    downgrade: bool,
    unsafe: bool,
    dry_run: bool,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Finalize FEATURE at LEVEL, if every broker and controller supports it.

    \b
      tierfetch features set tierfetch.version 1 --dry-run
    """
    kind = _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE if downgrade else _UPGRADE
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=(update,), validate_only=dry_run)
    run(bootstrap, lambda admin: admin.send(request))
    text = f"{feature} {'could be' if dry_run else 'is'} at {level}"
    report(as_json, {"feature": feature, "level": level, "dry_run": dry_run}, text)
