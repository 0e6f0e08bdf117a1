"""What the site needs beyond the pages: the files of the repository's root that pages link to become pages, too."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FROM_THE_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root; their links to `docs/` become links beside them."""
    for name, page in FROM_THE_ROOT.items():
        text = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text())
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Have links out of `docs/` lead to those pages."""
    for name, page in FROM_THE_ROOT.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    return markdown
