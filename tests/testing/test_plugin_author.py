"""What the pages say to the author of a tier plugin is what the code asks for."""

from __future__ import annotations

import re
from pathlib import Path

from tierfetch.plugins.object_storage import ObjectStore

ROOT = Path(__file__).parents[2]


def test_the_page_lists_the_methods_of_an_object_store() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (listed,) = re.findall(r"Its methods: (.*?)\.", text)
    methods = [name for name, member in vars(ObjectStore).items() if callable(member) and not name.startswith("_")]
    assert re.findall(r"`(\w+)`", listed) == methods
