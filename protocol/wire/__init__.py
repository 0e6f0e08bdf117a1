"""Bytes of Kafka's protocol to values and back. Pure.

primitives        reads and writes the primitive types.
varint            reads and writes variable-length integers.
framing           cuts a stream of bytes into frames.
message_codec     reads and writes message classes in any version.
steps             reads and writes message classes in steps, for messages that may be large.
stepping          declares what steps are, and runs them to their end.
schema            holds kio's schema of one version of a message, field by field.
produce           reads and writes Produce, versions 3-13, as one version-independent value each.
leader_hints      writes the current leader into Produce and Fetch responses (KIP-951).
config_resources  numbers the config resources and sources of DescribeConfigs.
"""
