"""The tables of `docs/plugins.md`: the kinds of plugins, and the options of those that tierfetch brings.

`python -m tierfetch.cli.plugins.page` writes them between their marks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ...plugin_registry import KINDS, OURS, InstalledPlugin, list_plugins
from .command import option_row

PAGE: Final = Path(__file__).parents[2] / "docs" / "plugins.md"
_SECTION = re.compile(r"(<!-- (kinds|options): [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """Return the page with its tables as the code has them."""
    tables = {"kinds": _kinds(), "options": _options()}
    return _SECTION.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[3]}", text)


def _kinds() -> str:
    rows = [
        f"| {kind.name} | `{kind.group}` | `{kind.key}` | `{kind.prefix}*` | {kind.nodes} | `{kind.port}` |\n"
        for kind in KINDS
    ]
    head = "| kind | entry-point group | key that names it | its options | installed on | port |\n"
    head += "|---|---|---|---|---|---|\n"
    return head + "".join(rows)


def _options() -> str:
    ours = [plugin for plugin in list_plugins() if plugin.name in plugin.kind.built_in and plugin.distribution == OURS]
    return "\n".join(_plugin(plugin) for plugin in ours)


def _plugin(plugin: InstalledPlugin) -> str:
    head = f"### {plugin.name} ({plugin.kind.name})\n\n{plugin.summary}\n"
    if not plugin.options:
        return head
    rows = [option_row(plugin, option) for option in plugin.options]
    lines = [
        f"| `{row['key']}` | {row['type']} | {_default(row['default'])} | {row['unit']} | {row['description']} |\n"
        for row in rows
    ]
    return f"{head}\n| option | type | default | unit | what it is |\n|---|---|---|---|---|\n{''.join(lines)}"


def _default(default: str | None) -> str:
    return "required" if default is None else default


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
