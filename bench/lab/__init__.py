"""Real Apache Kafka on loopback, for benchmarks and interoperability tests."""
