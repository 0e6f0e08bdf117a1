"""`tierfetch topics|configs|brokers|features|reassign`: an operator's requests, to any broker of any Kafka cluster."""
