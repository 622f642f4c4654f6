"""Release files: a Parquet file or a folder of them, complete or not there, checked when read."""
