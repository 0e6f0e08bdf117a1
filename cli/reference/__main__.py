"""Write the generated pages."""

from pathlib import Path

from . import PAGES

if __name__ == "__main__":
    for name, page in PAGES.items():
        (Path(__file__).parents[2] / "docs" / name).write_text(page())
