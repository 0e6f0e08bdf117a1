"""Measure the Spark source against a librdkafka consumer (`python -m bench spark`).

command   is the command line.
table     measures rows per second inside Spark.
tiny      measures tiny batches inside Spark.
decoder   measures the decoder alone, on one core.
planning  measures how long a plan of many segments takes.
memory    measures what a worker needs for one large segment.
segments  writes tiers without a broker.
"""
