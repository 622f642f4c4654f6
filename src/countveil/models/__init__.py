"""Immutable descriptions of models for counts.

``CountModel`` is the protocol; ``TopicModel`` the Poisson factorization of a matrix. A model holds its settings
and nothing of a fit: state goes in and comes out, so two fits with one model object cannot touch each other.
"""

from countveil.models.count_model import CountModel
from countveil.models.topic_model import TopicModel

__all__ = ["CountModel", "TopicModel"]
