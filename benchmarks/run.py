"""``make bench``: one command, one report, ratios in one run, written to benchmarks/RESULTS.md."""

from __future__ import annotations

import argparse
import datetime
import tempfile
from pathlib import Path
from typing import Any

import factorizations
import lda
import noise
from documents import documents
from engines import side_by_side
from growth import growth
from machine import describe_machine
from memory import measured_fit
from mixing import samples_per_sweep
from phases import phases
from sweeps import LEVELS, bessel_nanoseconds, sweep_times
from threads import threads_against_processes

TOPICS = 50
PART = (100, 1000)  # documents and words on which mixing is measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", help="a scipy.sparse .npz of documents x words; synthetic by default")
    parser.add_argument("--edges", help="a .csv.gz of time, sender, recipient; synthetic by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument("-o", "--output", default=str(Path(__file__).with_name("RESULTS.md")))
    given = parser.parse_args()
    rounds, burn_in, mixing_sweeps = (3, 20, 60) if given.quick else (5, 80, 4000)
    report = Report()
    counts, what = documents(given.documents)
    report.say("# Benchmarks", "")
    report.say(f"Made by `make bench` on {datetime.date.today():%Y-%m-%d}: {describe_machine()}.", "")
    report.say(
        "Take the ratios: they were measured side by side, in turns, in one run. Seconds differ by machine.",
        "",
    )

    report.say("## Noise", "", *noise.table(), "")

    report.say(f"## Topic model, K = {TOPICS}, {given.threads} threads", "", f"On {what}.", "")
    times = sweep_times(counts, TOPICS, given.threads, burn_in, rounds)
    model = lda.lda_model(counts, TOPICS)
    lda.seconds_per_iteration(model, given.threads, 20)
    turns: list[tuple[float, float]] = []
    for _ in range(rounds):
        iteration = lda.seconds_per_iteration(model, given.threads, 10)
        plain = side_by_side({"plain": (times["plain"], 10)}, given.threads, 1)["plain"]
        turns.append((plain, iteration))
    plain, iteration = sorted(turns, key=lambda turn: turn[0] / turn[1])[len(turns) // 2]

    mixing: dict[float, Any] = {}
    nanoseconds: dict[float, float] = {}
    for rho in LEVELS:
        release, state = times["releases"][rho], times["states"][rho]
        nanoseconds[rho] = bessel_nanoseconds(release, state, TOPICS)
        mixing[rho] = samples_per_sweep(release, state, TOPICS, PART, mixing_sweeps)

    report.say("| seconds per sweep | eps/N = 1 | eps/N = 2 | eps/N = 3 |", "|---|---|---|---|")
    for method in ("exact", "exact, the paper's prior", "bessel", "naive", "non-private"):
        report.row(method, [f"{times['seconds'][rho][method]:.3f}" for rho in LEVELS])
    report.row(
        "**bessel / exact** (bar: 30)",
        [f"**{times['seconds'][rho]['bessel'] / times['seconds'][rho]['exact']:.0f}**" for rho in LEVELS],
    )
    report.row("bessel, ns per cell on one thread (bar: 170)", [f"{nanoseconds[rho]:.0f}" for rho in LEVELS])
    report.row(
        "a bessel of 170 ns per cell / exact",
        [f"{_slow_bessel(counts, given.threads) / times['seconds'][rho]['exact']:.0f}" for rho in LEVELS],
    )
    for quantity in ("log-likelihood", "50 rates"):
        for method in ("exact", "bessel"):
            report.row(
                f"sweeps per effective sample of {quantity}, {method}",
                [f"{1 / mixing[rho][method][quantity]:.1f}" for rho in LEVELS],
            )
        report.row(
            f"**effective samples per second of {quantity}, exact / bessel** (bar: 40)",
            [f"**{_gain(times, mixing, rho, quantity):.0f}**" for rho in LEVELS],
        )
    report.say("")
    report.say(
        f"Effective samples per sweep come from chains of {mixing_sweeps:,} sweeps on the first {PART[0]} documents and "
        f"their {PART[1]:,} commonest words for both methods (of the 50 rates, the median), because bessel would take "
        "days on all; seconds per sweep are those on all documents.",
        "",
    )
    report.say(
        f"tomotopy LDA, {given.threads} workers: {iteration:.3f} s per iteration; our non-private sweep in turns with "
        f"it: {plain:.3f} s. **tomotopy / ours: {iteration / plain:.2f}** (bar: 1).",
        "",
    )
    parts = {rho: phases(times["releases"][rho], times["states"][rho], TOPICS) for rho in LEVELS}
    report.say(
        "| an exact sweep on one thread, ms | eps/N = 1 | eps/N = 2 | eps/N = 3 |", "|---|---|---|---|"
    )
    for part in dict.fromkeys(name for each in parts.values() for name in each):
        report.row(part, [f"{parts[rho].get(part, 0.0):.0f}" for rho in LEVELS])
    report.say("")
    with tempfile.TemporaryDirectory() as folder:
        report.say(
            "| a fit in its own process, 50 kept draws | eps/N = 1 | eps/N = 2 | eps/N = 3 |",
            "|---|---|---|---|",
        )
        fits = []
        for rho in LEVELS:
            path = str(Path(folder) / f"{rho}.parquet")
            times["releases"][rho].save(path)
            fits.append(measured_fit(path, TOPICS, 100, 1, given.threads))
        report.row("peak memory, MB (bar: 800)", [f"{fit['peak_mb']:.0f}" for fit in fits])
        report.row("seconds to load the release", [f"{fit['load']:.1f}" for fit in fits])
        report.row(
            "seconds of a warm fit outside its sweeps (bar: 3)",
            [f"{fit['fit'] - fit['sweeping']:.1f}" for fit in fits],
        )
        report.say("")
        path = str(Path(folder) / "1.0.parquet")
        ratio = threads_against_processes(path, times["states"][1.0], TOPICS, 20, rounds)
        report.say(
            f"Two threads reach **{ratio:.2f}** of two independent processes at eps/N = 1 (bar: 0.85).", ""
        )
    report.say("| an exact sweep at eps/N = 2 takes, when doubled | times as long |", "|---|---|")
    for name, value in growth(counts, TOPICS, given.threads, burn_in // 2, rounds).items():
        report.row(name + (" (bar: 1.2)" if name.startswith("columns") else ""), [f"{value:.2f}"])
    report.say("", "## Communities and tensors", "", *factorizations.table(given.edges), "")
    Path(given.output).write_text("\n".join(report.lines))
    print(f"Written to {given.output}")


def _slow_bessel(counts: Any, threads: int) -> float:
    """Seconds per sweep of a program that needs 170 ns per cell on each thread, as the authors' does."""
    return 170e-9 * counts.shape[0] * counts.shape[1] / threads


def _gain(times: Any, mixing: Any, rho: float, quantity: str) -> float:
    seconds = times["seconds"][rho]
    exact, bessel = (mixing[rho][m][quantity] / seconds[m] for m in ("exact", "bessel"))
    return exact / bessel


class Report:
    """Lines that are shown as they come and written at the end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        for line in lines:
            print(line, flush=True)
        self.lines += lines

    def row(self, name: str, cells: list[str]) -> None:
        self.say(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
