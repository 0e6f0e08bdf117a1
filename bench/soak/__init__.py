"""A long life in short: mixed work at a steady rate, and whether memory, descriptors or tasks grow (`bench soak`).

verdict  decides from the samples whether a process grew.
probe    takes the samples: memory, descriptors and tasks of each node, latencies of the minute.
work     keeps the cluster busy: producers, a consumer group, topics that come and go.
command  runs it, and reports.
"""
