"""Where chains settle: plain starts against ``start="auto"``, at equal CPU.

    python benchmarks/starts.py --documents documents.npz --edges edges.csv.gz --processes 2 -o STARTS.md

Each row of the table is one problem with several chains, each from a start of its own. Plain chains get more sweeps, so
that they have at least the CPU time of the others. Log-likelihood: of all observed cells, true counts summed out,
the mean over kept draws. Held-out: the log score of the true counts of hidden cells (one in ten).
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

import countveil as cv
import factorizations
from countveil.inference.chains import run_chains
from countveil.inference.problem import make_problem
from countveil.inference.relocation import Relocation, roles_of
from countveil.inference.settings import check_settings
from countveil.kernels.given_release.geometric import log_marginal_clamped
from countveil.runtime.workers import Workers
from documents import documents
from machine import describe_machine
from priors import messages


class Case(NamedTuple):
    """A problem: what it is called, its model and true counts, and the noise."""

    name: str
    model: Any
    counts: np.ndarray
    rho: float | None
    sweeps: int
    one_in: int = 10  # cells that are hidden
    more: float = 1.4  # so many times the sweeps for plain chains
    better: str = "auto"  # the start that is compared with the plain one


def planted_network(kind: str, n_groups: int, seed: int) -> np.ndarray:
    """Counts between actors of groups that mostly deal with themselves, or (Tucker) with another one."""
    rng = np.random.default_rng(seed)
    n = 20 * n_groups if n_groups <= 5 else 10 * n_groups
    group = np.arange(n) % n_groups
    activity = rng.gamma(1.0, 1.0, n)
    blocks = 0.02 + 1.5 * np.eye(n_groups)
    to = (group + 1) % n_groups if kind == "Tucker" else group
    rates = (
        activity[:, None] * blocks[group][:, to] * (rng.gamma(1.0, 1.0, n) if kind == "Tucker" else activity)
    )
    counts = rng.poisson(rates)
    if kind == "undirected":
        counts = np.triu(counts, 1) + np.triu(counts, 1).T
    np.fill_diagonal(counts, 0)
    return counts


def model_of(kind: str, n: int) -> Any:
    """The model of a kind of network."""
    if kind == "Tucker":
        return cv.Factorization("ia,ab,jb->ij", a=n, b=n)
    return cv.CommunityModel(n, directed=kind != "undirected", rate=1.0)


def cases(edges: str | None, path: str | None, n_documents: int, quick: bool) -> list[Case]:
    """All problems."""
    found = []
    for kind in ("directed", "undirected", "Tucker"):
        for n in (5, 20):
            for rho in (1.0, 3.0, None):
                found.append(
                    Case(
                        f"planted, {kind}, C = {n}", model_of(kind, n), planted_network(kind, n, n), rho, 1500
                    )
                )
    for n in (5, 20):
        for rho in (1.0, 3.0, None):
            model = cv.CommunityModel(n, rate=None)
            counts = planted_network("directed", n, n)
            found.append(Case(f"planted, directed, C = {n}, inferred", model, counts, rho, 1500))
    if edges is not None:
        every_line = factorizations.messages(edges)[0].sum(axis=2)  # a few very heavy cells
        for n, sweeps in ((5, 3000), (20, 2000)):
            name = f"Enron network with repeated lines, C = {n}"
            found.append(Case(name, cv.CommunityModel(n, rate=1.0), every_line, 1.0, sweeps))
        network = messages(edges).sum(axis=2)
        for n, kind, rate in ((20, "", 1.0), (20, ", inferred", None), (5, "", 1.0)):
            for rho in (1.0, 3.0):
                model = cv.CommunityModel(n, rate=rate)
                found.append(Case(f"Enron network, C = {n}{kind}", model, network, rho, 1500))
    if path is not None:
        texts, _ = documents(path)
        chosen = np.sort(np.random.default_rng(0).choice(texts.shape[0], n_documents, replace=False))
        part = np.asarray(texts[chosen].todense())
        for kind, rate in (("", None), (", fixed prior", 1.0)):
            for rho in (None, 3.0):
                name, model = f"Enron documents, K = 50{kind}", cv.TopicModel(50, rate=rate)
                found.append(Case(name, model, part, rho, 150, one_in=50, better="collapsed"))
        longest = np.sort(np.argsort(-texts.sum(axis=1), kind="stable")[:400])
        words = np.sort(np.argsort(-texts[longest].sum(axis=0), kind="stable")[:400])
        dense = np.asarray(texts[longest][:, words].todense())
        for rho in (None, 3.0):
            name = "Enron, 400 longest documents x 400 words, K = 20"
            found.append(
                Case(name, cv.TopicModel(20), dense, rho, 600, one_in=50, more=2.2, better="collapsed")
            )
    return found[:2] if quick else found


def settle(case: Case, start: str, seed: int) -> dict[str, Any]:
    """One chain: where it ends, and what it cost."""
    rng = np.random.default_rng(1)
    hidden = np.zeros(case.counts.shape, dtype=bool)
    flat = rng.choice(case.counts.size, case.counts.size // case.one_in, replace=False)
    hidden.reshape(-1)[flat] = True
    data: Any
    if case.rho is None:
        data = np.ma.masked_array(case.counts, hidden)
    else:
        data = cv.simulate_release(case.counts, alpha=float(np.exp(-case.rho)), seed=2).hide(
            np.nonzero(hidden)
        )
    sweeps = int(case.sweeps * (case.more if start == "plain" else 1))
    settings = check_settings(
        sweeps=sweeps, burn_in=sweeps * 2 // 3, thin=5, chains=1, seed=seed, method="exact", engine="cpu",
        threads=1, start=start,
    )  # fmt: skip
    problem = make_problem(case.model, data)
    began = time.process_time()
    draws = run_chains(problem, settings)
    seconds = time.process_time() - began
    test = np.setdiff1d(np.flatnonzero(hidden), _left_out(case))
    y = case.counts.reshape(-1)[test].astype(float)
    width = case.counts.size // len(case.counts)
    log_likelihood = Likelihood(problem, case)
    likelihoods, scores = [], []
    kept = len(next(iter(draws.monitored.values()))[0])
    for draw in range(kept - min(kept, 60), kept):
        state = draws.state_type(**{name: a[0, draw].astype(float) for name, a in draws.states.items()})
        likelihoods.append(log_likelihood(state))
        mu = np.maximum(case.model.rates_at(state, *np.divmod(test, width)), 1e-300)
        scores.append(y * np.log(mu) - mu - gammaln(y + 1.0))
    score = float(np.sum(logsumexp(scores, axis=0) - np.log(len(scores))))
    return {"case": case.name, "rho": case.rho, "start": start, "seed": seed, "cpu": seconds,
            "log_likelihood": float(np.mean(likelihoods)), "held_out": score}  # fmt: skip


class Likelihood:
    """The log-likelihood of all observed cells, by a state: cells x <= 0 together, by the sum of their rates."""

    def __init__(self, problem: Any, case: Case) -> None:
        view = problem.views[""]
        roles = roles_of(view.model._spec.by_axis)
        assert roles is not None
        self._model, self._of = view.model, Relocation(view.model, view.observed, roles, 0)
        data = view.observed
        others = data.n_rows * data.width - len(data.columns) - len(data.missing_columns)
        self._others = 0.0 if case.rho is None else others * float(log_marginal_clamped(0, 0.0, case.rho))

    def __call__(self, state: Any) -> float:
        return self._of._log_likelihood(self._model._hold(state), Workers(1)) + self._others


def _left_out(case: Case) -> np.ndarray:
    cells = case.model.left_out(case.counts.shape)
    return np.zeros(0, np.int64) if cells is None else np.ravel_multi_index(cells, case.counts.shape)


def table(found: list[dict[str, Any]]) -> str:
    """Markdown: a row for each problem and start, means over chains with their half range."""
    lines = [
        "| problem | eps/N | start | log-likelihood, by chain | mean | held-out | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rho, start in dict.fromkeys((f["case"], f["rho"], f["start"]) for f in found):
        mine = [f for f in found if (f["case"], f["rho"], f["start"]) == (name, rho, start)]
        ends = sorted(f["log_likelihood"] for f in mine)
        held, cpu = [f["held_out"] for f in mine], [f["cpu"] for f in mine]
        each = " ".join(f"{e:,.0f}" for e in ends)
        level = "plain" if rho is None else f"{rho:g}"
        lines.append(
            f"| {name} | {level} | {start} | {each} | {np.mean(ends):,.0f} | "
            f"{np.mean(held):,.0f} ± {np.std(held, ddof=1):,.0f} | {np.mean(cpu):.1f} |"
        )
    return "\n".join(lines)


def report(found: list[dict[str, Any]], n_documents: int) -> str:
    """The page."""
    minutes = sum(f["cpu"] for f in found) / 60
    chains = max(f["seed"] for f in found) + 1
    has_texts = any("Enron documents" in f["case"] for f in found)
    texts = f" Documents: {n_documents:,} of them, drawn at random." if has_texts else ""
    return f"""# Where chains settle

Made by `python benchmarks/starts.py` on {datetime.date.today():%Y-%m-%d}, {minutes:.0f} minutes of one core in all: {describe_machine(("countveil", "numpy", "numba"))}.

{chains} chains of every problem, each from a start of its own, `start="plain"` against `start="auto"`, of texts `start="collapsed"`; plain chains
have 1.4 times the sweeps (of dense text 2.2 times), so as to have the CPU time of the others. Log-likelihood: of all
observed cells, true counts summed out, the mean over kept draws, chain by chain. Held-out: the log score of the true counts of hidden cells
(one in ten, of documents one in fifty), mean and standard deviation over chains. Higher is better.{texts}

{table(found)}
"""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edges", help="a .csv.gz of time, sender, recipient")
    parser.add_argument("--documents", help="a scipy.sparse .npz of documents x words")
    parser.add_argument("--rows", type=int, default=500, help="documents that are taken")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--results", help="chains as they end, a line of JSON each; those in it are not run again"
    )
    parser.add_argument("-o", "--output")
    given = parser.parse_args()
    wanted = [c for c in cases(given.edges, given.documents, given.rows, given.quick) if given.only in c.name]
    settle(wanted[0]._replace(sweeps=90), wanted[0].better, 0)  # compile once
    work = [
        (case, start, seed)
        for case in wanted
        for start in ("plain", case.better)
        for seed in range(given.chains)
    ]
    found = [json.loads(line) for line in _lines(given.results)]
    done = {(f["case"], f["rho"], f["start"], f["seed"]) for f in found}
    work = [w for w in work if (w[0].name, w[0].rho, *w[1:]) not in done]
    with ProcessPoolExecutor(given.processes) as pool:
        for one in pool.map(settle, *zip(*work, strict=True)) if work else ():
            found.append(one)
            if given.results:
                with Path(given.results).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(one) + "\n")
    print(table(found))
    if given.output:
        Path(given.output).write_text(report(found, given.rows), encoding="utf-8")


def _lines(path: str | None) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if path and Path(path).exists() else []


if __name__ == "__main__":
    main()
