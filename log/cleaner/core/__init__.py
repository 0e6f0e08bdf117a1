"""The rules of compaction. Pure.

plan        decides which part of a log may be cleaned, and which segments become one.
offset_map  maps each key to its last offset in a range of the log.
batches     decides which records of a batch remain.
"""
