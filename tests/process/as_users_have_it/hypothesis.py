"""Stands for a hypothesis that is not installed, as on a user's machine; it is put first on the path of nodes.

kio imports hypothesis where it finds it, which is a third of the time that a node takes to start.
"""

from __future__ import annotations

raise ImportError("nodes of tests have no hypothesis, as users have none")
