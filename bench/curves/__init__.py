"""Measure how costs grow with partitions and with clients, beside Apache Kafka's: `python -m bench curves`.

points      says which points there are, in which order, and which of them a file has already.
bends       says where a curve bends upward, and whether that is before another one's.
partitions  measures one number of partitions: creation, produce, memory, failover, start, catch-up.
clients     measures one number of clients: produce, memory, failover.
load        is so many clients of a broker: a process with a connection for each.
draw        draws the curves as SVG.
report      prints them as a table, with where each one bends.
command     has the options, and runs what is missing.
"""
