"""Measure the replacement of a broker with many partitions, and show where each 10 ms of it goes.

states    says in which state each replica was at each moment, and what CPU time went by. Pure.
session   loads a cluster, wipes and starts its follower, and reads off its logs what happened.
draw      draws the states and the CPU time of each case.
report    has the figures, and prints them.
command   is the command line.
"""
