"""The posterior of a fit: draws, model and data together, labelled, for people."""

from countveil.posterior.components import Components
from countveil.posterior.posterior import Posterior
from countveil.posterior.posterior_file_error import PosteriorFileError
from countveil.posterior.run_reader import load_posterior
from countveil.posterior.shared_posterior import SharedPosterior
from countveil.posterior.topics import Topics

__all__ = ["Components", "Posterior", "PosteriorFileError", "SharedPosterior", "Topics", "load_posterior"]
