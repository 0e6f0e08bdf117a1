"""Where the data lies: the options of the source, the stores of the tier, the brokers, and a worker's open handles.

brokers  What is not in the tier yet, asked of the brokers
options  The options of the `tierfetch` source, checked before anything is asked of the tier
stores   Where segments lie, and how
worker   What a Python process of Spark keeps from one task to the next
"""
