"""How good is it? Scores of predicted rates and of topics, against counts that are known.

======================== ====================================================================
``mean_absolute_error``  how far rates are from counts; flatters silence
``log_score``            how probable the counts are under the posterior; does not
``log_likelihood``       how probable the fitted data are, draw by draw, for ArviZ's ``loo``
``held_out_log_score``   how probable cells are that were hidden from the fit
``loo``, ``compare``     the same for every cell left out in turn, from one fit (``Loo``)
``rootogram``            how often values were seen, beside how often the model expects them
``pit``                  where every value lies in its predictive distribution
``npmi``                 how much a topic's words attract each other, in [-1, 1]
``coherence``            the same by Mimno et al. (2011), a sum of logarithms
``top_words``            the words by which a topic is shown and scored
======================== ====================================================================

Functions that see true counts give results that are not private: they are for studies, in which the truth is
at hand, and for a data holder who wants to know what privacy costs. ``log_likelihood``, ``held_out_log_score``,
``loo``, ``rootogram`` and ``pit`` of a release see the release alone.
"""

from countveil.evaluation.held_out import held_out_log_score
from countveil.evaluation.leave_one_out import Loo, compare, loo
from countveil.evaluation.likelihood import log_likelihood
from countveil.evaluation.predictive_checks import pit, rootogram
from countveil.evaluation.rates import log_score, mean_absolute_error
from countveil.evaluation.topics import coherence, npmi, top_words

__all__ = [
    "Loo",
    "coherence",
    "compare",
    "held_out_log_score",
    "log_likelihood",
    "log_score",
    "loo",
    "mean_absolute_error",
    "npmi",
    "pit",
    "rootogram",
    "top_words",
]
