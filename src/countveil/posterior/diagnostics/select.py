"""Some of the chains of a posterior, or its later draws; whatever comes of them says that they were selected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from countveil.models.count_model import whole_number

#: The attribute of a tree whose chains were selected: their numbers, and of how many.
SELECTED = "selected"
#: That of one whose first draws were left out: the burn-in it was fitted with.
FITTED_BURN_IN = "fitted_burn_in"


def checked_numbers(chains: Any, tree: xr.DataTree) -> list[int]:
    """Numbers of chains of this tree, each once, in order, or an error."""
    known = tree["posterior"]["chain"].to_numpy().tolist()
    wanted = f"chains: expected some of the chains {', '.join(map(str, known))}, each once"
    if isinstance(chains, str | bytes) or not isinstance(chains, Iterable):
        raise TypeError(f"{wanted}, as a list, got {chains!r}")
    numbers = list(chains)
    plain = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in numbers)
    if not numbers or not plain or not set(numbers) <= set(known) or len(set(numbers)) < len(numbers):
        raise ValueError(f"{wanted}, got {numbers!r}")
    return sorted(map(int, numbers))


def with_chains(tree: xr.DataTree, numbers: list[int]) -> xr.DataTree:
    """The tree with these chains alone. It says so, unless they are all that were run."""
    groups = {}
    for node in tree.subtree:
        dataset = node.to_dataset(inherit=False)
        has_chains = "chain" in dataset.dims
        groups[node.path] = dataset.sel(chain=numbers) if has_chains else dataset
    chosen = xr.DataTree.from_dict(groups)
    known = tree["posterior"].sizes["chain"]
    before = _found(tree.attrs)
    if before or len(numbers) < known:
        chosen.attrs[SELECTED] = json.dumps({"chains": numbers, "of": before[1] if before else known})
    return chosen


def with_burn_in(tree: xr.DataTree, burn_in: Any) -> xr.DataTree:
    """The tree with the draws after this sweep alone, as if burn-in had ended there. It says so."""
    settings = json.loads(tree.attrs["settings"])
    if settings.get("keep", "all") != "all":
        raise ValueError(
            f"burn_in: expected a fit with keep='all', got keep={settings['keep']!r}, whose running means hold all "
            "draws since its own burn-in"
        )
    before, thin, draws = settings["burn_in"], settings["thin"], tree["posterior"].sizes["draw"]
    last = before + thin * draws
    burn_in = whole_number("burn_in", burn_in, 0)
    if not before <= burn_in < last:
        raise ValueError(
            f"burn_in: expected at least the {before:,} sweeps of this fit, before which no draws were kept, and "
            f"fewer than {last:,}, the sweep of its last draw, got {burn_in:,}"
        )
    left_out = (burn_in - before) // thin  # draw i, from 0 on, is of sweep before + thin * (i + 1)
    groups = {}
    for node in tree.subtree:
        dataset = node.to_dataset(inherit=False)
        if "draw" in dataset.dims:
            dataset = dataset.isel(draw=slice(left_out, None)).assign_coords(draw=np.arange(draws - left_out))
        groups[node.path] = dataset
    later = xr.DataTree.from_dict(groups)
    later.attrs["settings"] = json.dumps(settings | {"burn_in": before + thin * left_out})
    if left_out:
        later.attrs[FITTED_BURN_IN] = tree.attrs.get(FITTED_BURN_IN, before)
    return later


def numbered_as(tree: xr.DataTree, whole: xr.DataTree) -> xr.DataTree:
    """The tree of a view with the numbers of its chains that the whole has, and what was selected there."""
    chains = whole["posterior"]["chain"].to_numpy()
    groups = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
    found = xr.DataTree.from_dict(
        {
            path: group.assign_coords(chain=chains) if "chain" in group.dims else group
            for path, group in groups.items()
        }
    )
    found.attrs |= {name: whole.attrs[name] for name in (SELECTED, FITTED_BURN_IN) if name in whole.attrs}
    return found


def order_of_chosen(
    order: Callable[[], np.ndarray | None], before: xr.Dataset, now: xr.Dataset
) -> np.ndarray | None:
    """Of an order of all draws, (draws, components), the lines of those that were chosen of them."""
    of_all = order()
    if of_all is None:
        return None
    by_chain = of_all.reshape(before.sizes["chain"], before.sizes["draw"], -1)
    chains = np.isin(before["chain"].to_numpy(), now["chain"].to_numpy())
    return by_chain[chains, before.sizes["draw"] - now.sizes["draw"] :].reshape(-1, of_all.shape[1])


def selection_of(tree: xr.DataTree) -> str:
    """A sentence if chains or draws were selected, else nothing."""
    return selection_in(tree.attrs)


def selection_in(attributes: Mapping[Any, Any]) -> str:
    """The same, by the attributes of a tree or of a run."""
    found, told = _found(attributes), []
    if found is not None:
        chains, of = found
        told.append(f"{len(chains)} of {of} chains ({', '.join(map(str, chains))})")
    if FITTED_BURN_IN in attributes:
        now = int(json.loads(attributes["settings"])["burn_in"])
        told.append(f"draws after sweep {now:,} (fitted with burn-in {int(attributes[FITTED_BURN_IN]):,})")
    return f"Selected: {', '.join(told)}." if told else ""


def described_sizes(tree: xr.DataTree) -> str:
    """Chains and draws, in the words of a repr."""
    chains, draws = (tree["posterior"].sizes[dim] for dim in ("chain", "draw"))
    found = _found(tree.attrs)
    of = f"{chains} of {found[1]} chains (selected)" if found else f"{chains} chain{'s' * (chains > 1)}"
    return f"{of} x {draws} draw{'s' * (draws > 1)}"


def say_selection(tree: xr.DataTree, dataset: Any) -> Any:
    """A dataset or array that came of these draws, with the attribute ``chains`` if they were selected."""
    told = selection_of(tree)
    if told:
        dataset.attrs["chains"] = told
    return dataset


def _found(attributes: Mapping[Any, Any]) -> tuple[list[int], int] | None:
    """The selected chains, and of how many, as the attribute of a file or of another tree has them."""
    if SELECTED not in attributes:
        return None
    found = json.loads(attributes[SELECTED])
    return [int(number) for number in found["chains"]], int(found["of"])
