"""Log compaction: which log is cleaned, how, and what a cleaning leaves.

cleaner         cleans the logs of a node one after another, the dirtiest first.
cleaning        performs one cleaning: it builds the map, rewrites the segments, and swaps them in.
batch_cleaning  cleans one batch: it reads the records in slices and writes those that remain.
core/           decides what may be cleaned and which records remain.
"""
