"""An application that uses aiokafka, unchanged, in a simulated cluster (docs/simulate-your-app.md).

run      `simulated` runs an application with one seed, and explains what fails.
node     `SimulatedNode` is what the application gets: where the cluster is, and its disk.
client   It makes aiokafka follow the seed where it asks neither Python nor the event loop.
seeds    The pytest marker that runs a test with many seeds.
"""
