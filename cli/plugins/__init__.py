"""`tierfetch plugins`: the installed plugins and their options.

command  is `tierfetch plugins`.
page     writes the tables of docs/plugins.md.
"""

from __future__ import annotations

from .command import plugins

__all__ = ["plugins"]
