"""Packages that are installed for one test: modules and the metadata with their entry points, in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tierfetch.plugin_registry import PluginKind


def install_package(
    site: Path, distribution: str, plugins: Mapping[tuple[PluginKind, str], str], **sources: str
) -> None:
    """Write modules and a distribution whose entry points are `plugins`: (kind, name) -> `module:attribute`."""
    for module, source in sources.items():
        (site / f"{module}.py").write_text(source)
    info = site / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = [f"[{kind.group}]\n{name} = {target}\n" for (kind, name), target in plugins.items()]
    (info / "entry_points.txt").write_text("".join(lines))
