"""SPEC A4: every API in every version that both offer answers as Apache Kafka answers it."""
