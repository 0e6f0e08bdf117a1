"""`tierfetch spark`: jobs over a tier on Spark, on this machine or on a cluster."""

from .command import spark

__all__ = ["spark"]
