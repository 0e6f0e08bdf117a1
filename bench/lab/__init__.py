"""Start real Apache Kafka on loopback, for benchmarks and interoperability tests.

kafka  starts a cluster: one controller and some brokers, with tiering.
jars   fetches Apache Kafka's jars from Maven Central.
network  makes network namespaces with shaped links for the nodes of a cluster.
"""
