"""The experiments of the paper and some beyond, one file each that offers ``STUDY``; their data and pictures."""
