"""The parts of one open log, which share one `LogState`: append, read, trim, truncate, recover.

appender         The append path of one log
flusher          Makes a log durable up to an offset, and moves its recovery point there
reader           The read path of one log: slices to send, aborted transactions, look-ups by time
recovery         Opens the directory of a partition
recovery_report  What the opening of a log has to say
replay           Rebuilds producer state: from the newest usable snapshot, and the batches behind it
staged_segment   A segment that is written beside a log before it counts
state            What the parts of one open log share
trimming         Takes away from the start of the log
truncation       Takes away bytes at the end of the log, or all of it, under the gate and the flush lock, in this
warming          Puts a segment from the tier in front of a local log that begins behind it
write_pipeline   The writes of one log, in the order in which their offsets were assigned
"""
