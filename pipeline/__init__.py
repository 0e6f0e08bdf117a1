"""The tier as a Spark table: plans from what lies in the tier, decodes whole columns, asks no broker."""

from .spark.session import local_session, register

__all__ = ["local_session", "register"]
