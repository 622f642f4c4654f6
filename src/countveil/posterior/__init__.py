"""The posterior of a fit: draws, model and data together, labelled, for people."""

from countveil.posterior.align.components import Components
from countveil.posterior.align.topics import Topics
from countveil.posterior.diagnostics.modes import ModesWarning, warn_of_modes
from countveil.posterior.load import load_posterior
from countveil.posterior.posterior import Posterior
from countveil.posterior.runs.reader import PosteriorFileError
from countveil.posterior.shared import SharedPosterior

__all__ = [
    "Components",
    "ModesWarning",
    "Posterior",
    "PosteriorFileError",
    "SharedPosterior",
    "Topics",
    "load_posterior",
    "warn_of_modes",
]
