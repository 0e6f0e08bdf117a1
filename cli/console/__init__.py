"""`tierfetch console`: a cluster as a web page.

command     is the command: addresses, options, the end at Ctrl-C.
reading     reads the cluster with the functions of the other commands.
prediction  asks the model what replacing a broker takes.
"""

from __future__ import annotations

from .command import console

__all__ = ["console"]
