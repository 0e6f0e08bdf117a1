"""Fewer bytes for the same evenness: the last look at what a plan moves for balance. Begin with `refinement`.

refinement     takes moves back, exchanges and splits them.
trading        trades dear moves between givers.
moves          holds moves by the broker that they go to.
"""

from __future__ import annotations

from .refinement import refine

__all__ = ["refine"]
