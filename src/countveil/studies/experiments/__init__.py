"""The experiments of the paper and some beyond, one file each that offers ``STUDY``; their data and pictures."""

from countveil.runtime.own_settings import import_library

import_library("matplotlib")  # before any of them does
