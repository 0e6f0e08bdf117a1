"""tierfetch: Kafka-compatible replication over tiered storage.

One import package; its subpackages are the repository's top-level folders. `docs/ARCHITECTURE.md` says what each may
know; `lint-imports` holds them to it.
"""

__version__ = "0.1.0"
