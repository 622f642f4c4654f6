"""The commands, one file each: ``configure`` describes it, ``run`` does it. ``cli/main.py`` lists them."""
