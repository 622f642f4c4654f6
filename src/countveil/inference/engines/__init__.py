"""Engines: hardware that runs chains. Each is a folder here, found by its name; ``engine`` says what it offers."""
