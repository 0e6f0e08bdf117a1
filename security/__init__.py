"""Identity: who the other end of a connection is. Nothing here knows Kafka's messages; `protocol/net` uses it.

principal  declares `KafkaPrincipal`, and the security protocol of a listener.
core/      decides: SASL mechanisms, JAAS syntax, principal mapping rules. Pure.
"""
