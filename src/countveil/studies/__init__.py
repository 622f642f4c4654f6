"""Studies: real data, the paper's experiments and the demo, one file each."""
