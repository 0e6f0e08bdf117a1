"""The rules of compaction: what may be cleaned, the last offset of each key, and what is left of a batch. Pure.

batches     What a cleaning leaves of each batch. Pure
offset_map  Which offset is the last one of each key, over a range of the log
plan        Which part of a log may be cleaned, whether it is worth it, and which segments become one. Pure
"""
