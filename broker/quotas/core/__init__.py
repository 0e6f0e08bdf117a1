"""Pure parts of the quotas.

rate     measures a rate over windows as Kafka's Rate does, and computes throttle times.
sensors  keeps one rate for everybody who shares a quota.
"""
