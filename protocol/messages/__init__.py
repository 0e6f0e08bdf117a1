"""Requests and responses of Kafka's protocol, one class a message, whatever its version."""
