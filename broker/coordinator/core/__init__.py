"""What all coordinators have in common, without a log or a loop. Pure.

last_records  keeps the last record of each key of a compacted topic, as bytes.
undecided     holds values of open transactions until their markers.
texts         counts what texts take of memory.
"""
