"""Reading one split in an executor.

read_ahead  Reading ahead
skipped     What was not read and was passed over
splits      Reading one split, in an executor
tail        Reading what only the brokers have, in an executor
"""
