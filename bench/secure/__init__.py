"""What security costs.

tls            measures clients with TLS beside clients without it.
two_listeners  runs a broker that listens for both.
"""
