"""Any Poisson factorization, by its einsum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from countveil.counts.foreign import refuse_labels
from countveil.models.count_model import positive_number, rate_or_none
from countveil.models.einsum.inferred import Prior
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.spec import Spec, check_tied_sizes, read_sizes, read_spec


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Factorization(EinsumModel):
    """y ~ Poisson(einsum(spec, factors)), every entry of every factor gamma distributed.

    The indices after the arrow are the axes of the data; the others are summed, and need a size.

    ====================== =======================================================================
    ``"dk,kv->dv"``        matrix factorization: topics
    ``"ik,jk,tk->ijt"``    CP (PARAFAC) form of a tensor
    ``"ia,jb,tc,abc->ijt"`` Tucker form, with a core
    ``"ic,cd,jd->ij"``     communities; ``names=["theta", "pi", "theta"]`` ties the actors' factor
    ====================== =======================================================================

    Parameters
    ----------
    spec
        The einsum, without repeated indices in a factor.
    names
        One for each factor. The same name twice ties two factors: they are one array. It must stand on one axis
        at each place, and every observed cell is modelled, those where it meets itself included.
    shape
        Of the gamma priors: one number, or a mapping from names to numbers (0.1 for those left out).
    rate
        A number: Gamma(shape, rate) for every entry. None: how much the places of each axis have, and how large
        components are, is inferred (``posterior.scales()``), as by default in a ``TopicModel``. Or a mapping from
        names to either (1.0 for those left out).
    fixed
        A mapping from names to arrays: factors that are known, and not drawn.
    start
        A mapping from names to arrays: where the chains start.
    sizes
        Of the summed indices, such as ``k=50``.

    Examples
    --------
    >>> from countveil.models import Factorization
    >>> Factorization("ik,jk,tk->ijt", k=20)
    Factorization('ik,jk,tk->ijt', k=20)
    >>> model = Factorization("ic,cd,jd->ij", names=["theta", "pi", "theta"], shape={"pi": 0.5}, c=3, d=3)
    >>> model.dims
    {'theta': ('i', 'c'), 'pi': ('c', 'd')}
    """

    spec: str
    names: tuple[str, ...]
    shape: Mapping[str, float]
    rate: Mapping[str, float | None]
    fixed: Mapping[str, np.ndarray]
    start: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]
    _parsed: Spec = field(repr=False)

    def __init__(
        self,
        spec: str,
        *,
        names: Iterable[str] | None = None,
        shape: float | Mapping[str, float] = 0.1,
        rate: float | Mapping[str, float | None] | None = 1.0,
        fixed: Mapping[str, Any] | None = None,
        start: Mapping[str, Any] | None = None,
        **sizes: int,
    ) -> None:
        parsed = read_spec(spec, names)
        found = read_sizes(parsed, sizes)
        check_tied_sizes(parsed, found)
        put = object.__setattr__
        put(self, "spec", f"{','.join(parsed.terms)}->{parsed.output}")
        put(self, "names", parsed.names)
        least = partial(positive_number, least=1e-3)
        put(self, "shape", _of_each("shape", shape, parsed.factors, 0.1, least))
        put(self, "rate", _of_each("rate", rate, parsed.factors, 1.0, rate_or_none))
        put(self, "fixed", _arrays("fixed", fixed, parsed, found))
        put(self, "start", _arrays("start", start, parsed, found))
        put(self, "sizes", MappingProxyType(found))
        put(self, "_parsed", parsed)
        both = set(self.fixed) & set(self.start)
        if both:
            raise ValueError(f"start: expected factors that are not fixed, got {sorted(both)[0]!r}")

    def for_part(self, start: int, stop: int) -> Factorization:
        """The model of these rows alone: of what is given for each row theirs."""
        _, (spec, options) = self.__reduce__()
        for what in ("fixed", "start"):
            options[what] = {
                name: self._rows_of(name, array, start, stop) for name, array in options[what].items()
            }
        return _rebuilt(spec, options)

    def _rows_of(self, name: str, array: np.ndarray, start: int, stop: int) -> np.ndarray:
        axis, term = self._parsed.output[0], self._parsed.term(name)
        return array.take(range(start, stop), axis=term.index(axis)) if axis in term else array

    @property
    def _spec(self) -> Spec:
        return self._parsed

    @property
    def _sizes(self) -> Mapping[str, int]:
        return self.sizes

    @property
    def _fixed(self) -> Mapping[str, np.ndarray]:
        return self.fixed

    @property
    def _start(self) -> Mapping[str, np.ndarray]:
        return self.start

    def _prior(self, name: str) -> Prior:
        return Prior(self.shape[name], self.rate[name])

    def __repr__(self) -> str:
        options = []
        if self.names != read_spec(self.spec).names:
            options.append(f"names={list(self.names)}")
        for what, default in (("shape", 0.1), ("rate", 1.0)):
            values = dict(getattr(self, what))
            if len(set(values.values())) > 1:
                options.append(f"{what}={values}")
            elif set(values.values()) != {default}:
                options.append(f"{what}={next(iter(values.values()))}")
        options += [
            f"{what}={sorted(getattr(self, what))}" for what in ("fixed", "start") if getattr(self, what)
        ]
        options += [f"{letter}={size}" for letter, size in self.sizes.items()]
        return f"Factorization({', '.join([repr(self.spec), *options])})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factorization):
            return NotImplemented
        same = all(getattr(self, n) == getattr(other, n) for n in ("_parsed", "shape", "rate", "sizes"))
        return same and all(
            mine.keys() == theirs.keys() and all(np.array_equal(mine[n], theirs[n]) for n in mine)
            for mine, theirs in ((self.fixed, other.fixed), (self.start, other.start))
        )

    def __hash__(self) -> int:
        return hash((self._parsed, tuple(self.shape.items()), tuple(self.rate.items())))

    def __reduce__(self) -> tuple:
        options = {n: dict(getattr(self, n)) for n in ("shape", "rate", "fixed", "start")}
        return _rebuilt, (self.spec, {"names": self.names, **options, **self.sizes})

    @property
    def aligned_as(self) -> tuple[str, ...]:
        """How a posterior brings its draws into one order: a matrix as topics, any CP form as components."""
        if self._spec.per_axis is None:
            return ()
        return ("topics", "components") if len(self._spec.output) == 2 else ("components",)

    def describe(self) -> dict[str, Any] | None:
        """The settings as JSON can hold them: arguments that make the model again. None if it has fixed arrays."""
        if self.fixed:
            return None
        options = {"names": list(self.names), "shape": dict(self.shape), "rate": dict(self.rate)}
        return {"spec": self.spec, **options, **self.sizes}


def _rebuilt(spec: str, options: dict[str, Any]) -> Factorization:
    return Factorization(spec, **options)


def _of_each(
    what: str, given: Any, factors: tuple[str, ...], default: float, read: Callable[[str, Any], float | None]
) -> Mapping[str, float | None]:
    if not isinstance(given, Mapping):
        return MappingProxyType(dict.fromkeys(factors, read(what, given)))
    _known(what, given, factors)
    return MappingProxyType({n: read(f"{what}[{n!r}]", given.get(n, default)) for n in factors})


def _arrays(
    what: str, given: Mapping[str, Any] | None, spec: Spec, sizes: Mapping[str, int]
) -> Mapping[str, np.ndarray]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{what}: expected a mapping from names to arrays, got {type(given).__name__}")
    _known(what, given or {}, spec.factors)
    found = {}
    for name, values in (given or {}).items():
        refuse_labels(values, f"{what}[{name!r}]")
        array = np.array(values, dtype=np.float64)
        term = spec.term(name)
        fits = array.ndim == len(term) and all(
            c in spec.output or sizes[c] == n for c, n in zip(term, array.shape, strict=True)
        )
        if not fits:
            expected = tuple(sizes.get(c, c) for c in term)
            raise ValueError(f"{what}: expected shape {expected} for {name!r}, got {array.shape}")
        if not np.isfinite(array).all() or (array < 0).any() or (what == "start" and (array == 0).any()):
            raise ValueError(
                f"{what}: expected finite {'positive ' * (what == 'start')}values for {name!r}, got others"
            )
        array.setflags(write=False)
        found[name] = array
    return MappingProxyType(found)


def _known(what: str, given: Mapping[str, Any], factors: tuple[str, ...]) -> None:
    for name in given:
        if name not in factors:
            raise ValueError(f"{what}: expected names of factors ({', '.join(factors)}), got {name!r}")
