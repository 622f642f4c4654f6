"""What a file of anyone may make its reader take, known before it is taken: of memory, of pages, of arrays."""
