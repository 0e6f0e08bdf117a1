"""Where the data is: the options of the source, the stores of the tier, the brokers.

options  checks the options of the `tierfetch` source.
stores   offers every layout behind one interface, and chooses the layout.
brokers  reads from the brokers what is not tiered yet.
worker   keeps an event loop and open stores from one Spark task to the next.
"""
