"""Composition root: listeners, dispatch table, partitions, wiring image changes into fetcher and rlm. Thin by rule."""
