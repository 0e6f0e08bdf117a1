"""The decisions of a broker that need nothing but values. Pure.

follower_reads  What a consumer may read from a follower (KIP-392)
image_changes   Which partitions of a broker an image makes it look at, given the image that was applied before.
metadata_view   The metadata log as the broker sees it
read_replicas   Which replica a consumer had better read from (KIP-392)
recompression   `compression.type` other than `producer`
"""
