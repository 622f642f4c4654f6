"""The models of ``countveil fit``: their own options, the model they describe, and what to print of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from countveil.posterior import Posterior

_COMMUNITIES = """\
Find communities in a network of counts: who deals with whom, and how much.

The release is a square array, senders by receivers. Its diagonal is left out
unless --self-loops says otherwise. --undirected uses each pair once, from the
part above the diagonal."""

_COMMUNITIES_EXAMPLE = """\
examples:
  countveil fit communities network.parquet -o run.zarr --communities 10
  countveil fit communities network.parquet -o run.zarr --communities 10 --undirected"""

_TENSOR = """\
Find components in counts with three axes or more, such as senders by receivers
by months.

--rank gives the CP form, in which a component has its part of every axis; --core
the Tucker form, in which every axis has components of its own."""

_TENSOR_EXAMPLE = """\
examples:
  countveil fit tensor messages.parquet -o run.zarr --rank 20
  countveil fit tensor messages.parquet -o run.zarr --core 5,5,3"""

_FACTORIZATION = """\
Fit any Poisson factorization, given as an einsum of its factors. Indices after
the arrow are the axes of the counts; the others are summed and need a size."""

_FACTORIZATION_EXAMPLE = """\
examples:
  countveil fit factorization release.parquet -o run.zarr --spec 'dk,kv->dv' --sizes k=50
  countveil fit factorization network.parquet -o run.zarr --spec 'ic,cd,jd->ij' \\
      --sizes c=5,d=5 --names theta,pi,theta"""


def add_other_models(models: Any, parser_of: Callable[..., Any], common: Callable[[Any], None]) -> None:
    """The parsers of all models but topics."""
    parser = parser_of(models, "communities", "communities of a network", _COMMUNITIES, _COMMUNITIES_EXAMPLE)
    add = parser.add_argument
    add("--communities", type=int, default=10, metavar="C", help="number of communities (default 10)")
    add("--undirected", action="store_true", help="each pair has one count")
    add("--self-loops", action="store_true", help="the diagonal is part of the model")
    add("--members", type=int, default=8, metavar="N", help="actors of a community to print (default 8)")
    common(parser)
    parser = parser_of(models, "tensor", "components of a tensor", _TENSOR, _TENSOR_EXAMPLE)
    add = parser.add_argument
    add("--rank", type=int, metavar="K", help="number of components of the CP form")
    add("--core", metavar="A,B,C", help="shape of the core of the Tucker form")
    add("--axes", type=int, default=3, metavar="N", help="axes of the counts, with --rank (default 3)")
    add("--labels", type=int, default=5, metavar="N", help="labels of a component to print (default 5)")
    common(parser)
    parser = parser_of(
        models, "factorization", "any einsum of factors", _FACTORIZATION, _FACTORIZATION_EXAMPLE
    )
    add = parser.add_argument
    add("--spec", required=True, metavar="EINSUM", help="such as 'dk,kv->dv'")
    add("--sizes", default="", metavar="K=N,...", help="sizes of the summed indices, such as k=50")
    add("--names", metavar="NAME,...", help="names of the factors; the same name twice ties them")
    common(parser)


def model_of(arguments: argparse.Namespace) -> Any:
    """The model that the options describe."""
    from countveil.models import CommunityModel, Factorization, TensorModel, TopicModel

    priors = {"shape": arguments.shape, "rate": arguments.rate}
    if arguments.model == "topics":
        return TopicModel(arguments.topics, **priors)
    if arguments.model == "communities":
        directed, loops = not arguments.undirected, arguments.self_loops
        return CommunityModel(arguments.communities, directed=directed, self_loops=loops, **priors)
    if arguments.model == "tensor":
        core = (
            None if arguments.core is None else tuple(_whole("--core", n) for n in arguments.core.split(","))
        )
        return TensorModel(rank=arguments.rank, core=core, n_axes=arguments.axes, **priors)
    names = None if arguments.names is None else arguments.names.split(",")
    sizes: dict[str, Any] = {}
    for part in filter(None, arguments.sizes.split(",")):
        letter, _, size = part.partition("=")
        sizes[letter.strip()] = _whole("--sizes", size)
    return Factorization(arguments.spec, names=names, **priors, **sizes)


def findings_of(posterior: Posterior, arguments: argparse.Namespace) -> str:
    """What was found, for people."""
    if arguments.model == "topics":
        return str(posterior.topics(arguments.words))
    if arguments.model == "tensor":
        return str(posterior.components(arguments.labels))
    return _communities(posterior, arguments.members) if arguments.model == "communities" else ""


def _communities(posterior: Posterior, n_members: int) -> str:
    import numpy as np

    shares, blocks = posterior.memberships()["mean"], posterior.blocks()
    members, counts = shares.to_numpy(), blocks["mean"].to_numpy()
    names = shares[shares.dims[0]].to_numpy()
    lines = ["community  within  to others  from others  agreement  actors with the largest share"]
    for c, agreement in enumerate(blocks["agreement"].to_numpy()):
        top = np.argsort(-members[:, c], kind="stable")[:n_members]
        out, back = counts[c].sum() - counts[c, c], counts[:, c].sum() - counts[c, c]
        listed = " ".join(str(names[i]) for i in top)
        lines.append(f"{c:>9}  {counts[c, c]:6.0f}  {out:9.0f}  {back:11.0f}  {agreement:9.2f}  {listed}")
    return "\n".join(lines)


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{option}: expected whole numbers, got {text!r}") from None
