"""How segments lie in a store: one module for each layout, all behind `stores.SegmentStore`."""
