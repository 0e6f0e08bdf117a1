"""Quotas of clients on a broker: what they send, what they are sent, the time they take, the connections they make.

core/       measures rates, and computes how long a client has to wait.
clients     applies the quotas to the requests of all listeners.
metrics     shows the rates of the clients that have a quota.
"""
