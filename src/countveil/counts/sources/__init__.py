"""What a fit may be given besides one release: plain counts, releases stacked or combined; parts of their rows."""
