"""The Spark side: the data source, its streams, sessions, and checks of executors.

source        is `spark.read.format("tierfetch")`.
stream        is the streaming source: each offset exactly once across restarts.
columns       names and types the columns as Spark's Kafka source does.
pushdown      splits a query's filters into those we apply and those Spark must apply.
partition     is one Spark task.
session       opens a local Spark session with the source registered.
java          finds a Java for Spark: the system's, or one from a wheel.
executors     checks that every executor can read what the driver plans from.
driver_probe  rejects a query at planning time when executors cannot read.
spark_faults  reduces Spark's errors to one line.
"""
