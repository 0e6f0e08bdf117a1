"""Measure what a broker serves to fetches, and not what a client makes of it: `python -m bench fetch`.

requests  is a fetch that is written once and sent many times: its bytes, and how large its answer is.
walk      finds the fetches that read a partition from its start to its end.
reader    sends them and counts what comes: a process that decodes nothing.
bare      answers the same requests from the same files without any broker.
cache     empties the page cache of files.
rounds    decides who is measured when, and what is compared with what.
report    prints every round, shares and ratios within rounds, and values that come in two groups.
command   runs both systems and the bare loops in turn.

`python -m bench fetch-s3` has a tier on S3, which is served by a program of others:

downloads   reads the same objects through boto3, without any broker.
first_byte  measures what a first byte takes where the store is far away.
from_s3     runs the broker and boto3 in turn, then the first bytes.
"""
