"""Log compaction: which log, how, and what a cleaning leaves.

cleaner   Log compaction of a node: one log after another, the dirtiest first
cleaning  One cleaning of one log
"""
