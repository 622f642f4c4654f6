"""Immutable descriptions of models for counts.

``CountModel`` is the protocol; ``Factorization`` any Poisson factorization, by its einsum; ``TopicModel``,
``CommunityModel`` and ``TensorModel`` are the ones with conveniences of their own; ``SharedFactors`` joins models
of several arrays. A model holds its settings and nothing of a fit: state goes in and comes out, so two fits with
one model object cannot touch each other.
"""

from countveil.models.community_model import CommunityModel
from countveil.models.count_model import CountModel
from countveil.models.factorization import Factorization
from countveil.models.shared_factors import SharedFactors
from countveil.models.tensor_model import TensorModel
from countveil.models.topic_model import TopicModel
from countveil.models.unknown_noise import UnknownNoise

__all__ = [
    "CommunityModel",
    "CountModel",
    "Factorization",
    "SharedFactors",
    "TensorModel",
    "TopicModel",
    "UnknownNoise",
]
