"""What an operator is shown once everything is at rest, and what is done then at last.

final_looks      `FinalLooks` asks what operators ask, changes what they change last, and compares each answer.
many_partitions  `ManyPartitions` writes to, and reads from, all partitions of a leader at once.
"""
