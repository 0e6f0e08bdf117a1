"""Measure what producers wait for while closed segments are copied to the tier: `python -m bench copying`.

phases     says what is measured in which order, and what the figures of a round are compared with.
paced      produces at a steady rate, and notes what each record waited from the moment it was due.
tiers      runs the tiers: a directory, a foreign S3 server, a file system of fsspec.
evidence   says what of a pause is the loop's own work, due to the copy's threads, or the machine's.
session    runs a cluster, and measures it round by round.
report     prints the table.
command    has the options.
in_broker  is a folder for the brokers' `PYTHONPATH`: it sets the switch interval of their interpreters.
"""
