"""A broker's configuration file, as one value that everything else in `broker/` may read.

broker_config    A broker's configuration
dynamic_configs  Whether brokers could take dynamic configs
"""
