"""Can the draws be trusted? Intervals and convergence, chains in different modes, chains selected, in words."""
