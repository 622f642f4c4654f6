"""What stages found, as Markdown."""

from __future__ import annotations

import json


def markdown(session, stages):
    """What is in the folder of these stages, as tables."""
    for stage in stages:
        path = session.out / f"{stage}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text())
        print(f"\n## {stage}\n")
        if stage == "laws":
            print(f"{found['right']} of {found['checks']} checks right.")
        elif stage in ("variants", "networks"):
            done = {name: line["ms"] for name, line in found.items() if "ms" in line}
            columns = list(next(iter(done.values()), {}))
            table(["milliseconds per sweep", *columns], [
                [name, *(cell(line.get(column)) for column in columns)] for name, line in done.items()
            ])  # fmt: skip
            for name, line in found.items():
                if "failed" in line:
                    print(f"\n{name}: failed: {line['failed'][-300:]}")
            profiles = {name: line["kernels"] for name, line in found.items() if "kernels" in line}
            for case in next(iter(profiles.values()), {}):
                print(f"\nMicroseconds per sweep, {case}:\n")
                names = dict.fromkeys(
                    kernel for kernels in profiles.values() for kernel in kernels.get(case, {})
                )
                table(["", *names], [
                    [variant, *(f"{1e3 * kernels.get(case, {}).get(name, [0.0])[0]:.0f}" for name in names)]
                    for variant, kernels in profiles.items()
                ])  # fmt: skip
        elif all(isinstance(line, dict) for line in found.values()):
            columns = list(dict.fromkeys(name for line in found.values() for name in line))
            table(["", *columns], [
                [name, *(cell(line.get(column)) for column in columns)] for name, line in found.items()
            ])  # fmt: skip
        else:
            table(list(found), [[cell(value) for value in found.values()]])


def cell(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and len(value) == 2 and all(isinstance(x, float) for x in value):
        return f"{value[0]:.3g} to {value[1]:.3g}"
    return "" if value is None else str(value)


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
