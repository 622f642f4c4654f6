"""The posterior of a fit: draws, model and data together, labelled, for people."""

from countveil.posterior.posterior import Posterior
from countveil.posterior.posterior_file_error import PosteriorFileError
from countveil.posterior.run_reader import load_posterior
from countveil.posterior.topics import Topics

__all__ = ["Posterior", "PosteriorFileError", "Topics", "load_posterior"]
