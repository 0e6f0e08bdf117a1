"""The image of the cluster that the metadata log describes, and what is derived from it. Pure.

delta          What changed in an image since somebody last asked
image          The image
indexes        Which partitions an event concerns, without a walk over all of them
registrations  What the metadata log says of one partition, topic, broker or controller
snapshot       An image as records: replayed into an empty image they give an equal one
"""
