"""The decisions about identity. Pure: bytes in, bytes out.

settings           reads Kafka's keys into the settings of a listener or of a client.
node               reads the settings of a whole node.
jaas               parses `sasl.jaas.config`.
mechanism          declares what every SASL mechanism has in common.
acl                decides what ACLs allow.
authorization      reads the keys of the authorizer.
plain              is SASL PLAIN.
scram              is SASL SCRAM, and its credentials.
oauthbearer        is SASL OAUTHBEARER without the check of the token.
principal_mapping  maps a certificate's name to a principal.
"""
