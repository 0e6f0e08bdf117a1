"""Share groups at the leaders of partitions."""
