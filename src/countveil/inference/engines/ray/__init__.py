"""The Ray engine: ``cv.fit(..., engine=cv.Ray(address, shards))``, a shard of rows for each of some actors.

The program that fits is the driver: it runs the loop, keeps draws and writes the run. If an actor or its machine
is lost, all shards are made anew where there is room, and go on from the last state that the driver has of every
chain: draws follow from state and seed, so they are the same.
"""

from countveil.inference.engines.ray.crew import open_problem

__all__ = ["open_problem"]
