"""How segments are laid out in a store: one module for each layout, all behind `stores.SegmentStore`.

kafka           reads the layout of Kafka's `LocalTieredStorage`, which our plugins write.
aiven           reads the layout of Aiven's tiered storage plugin.
aiven_manifest  parses its `.rsm-manifest` files.
aiven_keys      decrypts its segment keys.
log_directory   reads a broker's log directory as segments.
"""
