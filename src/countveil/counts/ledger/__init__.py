"""The ledger of what was released: the book of entries, and what its releases cost together."""
