"""The reference pages that are generated: `python -m tierfetch.cli.reference` writes them into `docs/`.

commands  is `docs/commands.md`, out of click's tree.
configs   is `docs/config-keys.md`, out of the models that check the keys.
apis      is `docs/apis.md`, out of the table of APIs.
tables    writes a table in Markdown.
"""

from .apis import apis_page
from .commands import commands_page
from .configs import configs_page

PAGES = {"commands.md": commands_page, "config-keys.md": configs_page, "apis.md": apis_page}
"""What writes each page of `docs/`; none of them depends on the machine."""

__all__ = ["PAGES", "apis_page", "commands_page", "configs_page"]
