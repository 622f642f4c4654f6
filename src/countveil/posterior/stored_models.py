"""Models of our own as text in a run, and back."""

from __future__ import annotations

from typing import Any

from countveil.models import CommunityModel, Factorization, SharedFactors, TensorModel, TopicModel
from countveil.models.topic_model import TopicState

_OURS = {f"countveil.{kind.__name__}": kind for kind in (TopicModel, CommunityModel, TensorModel)}
_FACTORIZATION = "countveil.Factorization"
_SHARED = "countveil.SharedFactors"


def describe_ours(model: Any) -> dict[str, Any] | None:
    """Name and settings of one of our models; None for any other, and for one that holds arrays.

    >>> describe_ours(TopicModel(2))
    {'name': 'countveil.TopicModel', 'settings': {'n_topics': 2, 'shape': 0.1, 'rate': 1.0}}
    """
    for name, kind in _OURS.items():
        if type(model) is kind:
            found = {field: getattr(model, field) for field in kind.__dataclass_fields__}
            return {"name": name, "settings": {k: v for k, v in found.items() if v is not None}}
    if type(model) is Factorization and not model.fixed:
        options = {"names": list(model.names), "shape": dict(model.shape), "rate": dict(model.rate)}
        return {"name": _FACTORIZATION, "settings": {"spec": model.spec, **options, **model.sizes}}
    if type(model) is SharedFactors:
        views = {view: describe_ours(one) for view, one in model.views.items()}
        return None if None in views.values() else {"name": _SHARED, "settings": views}
    return None


def stored_model(described: dict[str, Any]) -> Any:
    """The model again, or None if it is a user's own."""
    settings = dict(described["settings"])
    if described["name"] == _FACTORIZATION:
        return Factorization(settings.pop("spec"), **settings)
    if described["name"] == _SHARED:
        return SharedFactors(**{view: stored_model(one) for view, one in settings.items()})
    kind = _OURS.get(described["name"])
    if kind is None:
        return None
    if settings.get("core") is not None:
        settings["core"] = tuple(settings["core"])
    return kind(**settings)


def state_type_of(model: Any) -> Any:
    """The class of the states of one of our models."""
    return TopicState if isinstance(model, TopicModel) else model.state_type
