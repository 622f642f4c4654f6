"""The posterior of a fit: draws, model and data together, labelled, for people."""

from countveil.posterior.files import PosteriorFileError, load_posterior
from countveil.posterior.posterior import Posterior

__all__ = ["Posterior", "PosteriorFileError", "load_posterior"]
