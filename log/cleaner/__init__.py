"""Log compaction: which log is cleaned, how, and what a cleaning leaves.

cleaner   cleans the logs of a node one after another, the dirtiest first.
cleaning  performs one cleaning: it builds the map, rewrites the segments, and swaps them in.
core/     decides what may be cleaned and which records remain.
"""
