"""Bytes of Kafka's protocol to values and back: primitive types, frames, entities of every version. Pure.

config_resources  What is told of configs
entities          Entities
framing           Frames
leader_hints      Who leads now, as Produce and Fetch responses tell it in tagged fields (KIP-951)
primitives        The primitive types of Kafka's protocol, read from a frame and written to a response
produce           Produce requests and responses, versions 3-13, as one version-independent value each
varint            Variable-length integers as Kafka writes them
"""
