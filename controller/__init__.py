"""The KRaft controller."""
