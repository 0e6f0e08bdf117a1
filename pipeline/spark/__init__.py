"""The Spark side: the data source, its streams, sessions, and checks of executors.

columns       The columns of the table, as Spark's Kafka source names and types them
driver_probe  How a query on a cluster is refused when it is planned where executors cannot read
executors     Whether every executor can read what the driver plans from
java          A Java for Spark: the system's if it is new enough, else one from a wheel
partition     One task of Spark
pushdown      The filters that Spark offers to a data source, as a `Pruning`, and those that Spark must still
session       A local Spark session with the source registered, for laptops, tests and jobs
source        `spark.read.format("tierfetch")`
spark_faults  What Spark raises, in a line: what the task said, without the traces of two languages
stream        The streaming source
"""
