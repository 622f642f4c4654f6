"""Rows spread over shards: the algorithms of the CPU engine on each, the same draws whatever their number.

================== ================================================================================
``shard``          the chains of one shard; which models it serves; parts of states, and wholes again
``front``          all shards as one sampler, for whoever holds them
``in_process``     shards that are threads of one process
================== ================================================================================

What shards say to each other is in ``runtime.shards``: a maximum, a sum of integers, a gathering. A sweep has for
every factor that is not the rows' one maximum and one sum; the rows' own are drawn first, each by its shard.
"""
