"""The plan of the remote log manager and what it looks at. Pure.

plan       What the remote log manager does next for one partition
quota      A token bucket: a number of bytes per second as a pure value of time
retention  What retention asks to go, by size and by time, computed as Kafka computes it. Asks only: the plan
view       What the plan looks at: one hosted partition, frozen at one moment
warming    What of the tier a thin replica takes back into its local log, newest first. Pure
"""
