"""The MPI engine: ``mpirun -n 8 countveil fit … --engine mpi``, a shard of rows for each rank.

Rank 0 runs the loop, keeps the draws and writes the run; the others follow it (``follow``) from the moment a fit is
asked for, and end with it. All ranks run one program, so that each comes to the same ``fit``.
"""

from countveil.inference.engines.mpi.crew import MpiCrew, follow, is_follower, open_problem

__all__ = ["MpiCrew", "follow", "is_follower", "open_problem"]
