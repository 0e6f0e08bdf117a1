"""A real Spark session over real tiers (make test-spark)."""
