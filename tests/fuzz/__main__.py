"""``python -m fuzz``: crafted files against every reader for some time; exit code 1 if anything was found.

make fuzz SECONDS=600 SEED=7                all readers
python -m fuzz --reader resume --number 12  one case again, with the error that came of it
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from fuzz.campaign import Campaign, Case, Finding
from fuzz.readers import READERS


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="fuzz", description="Crafted files against every reader, within limits."
    )
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--reader", action="append", choices=list(READERS))
    parser.add_argument("--number", type=int, help="one case of --reader and --seed alone")
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz-findings"), help="where findings are saved"
    )
    given = parser.parse_args()
    names = given.reader or list(READERS)
    with tempfile.TemporaryDirectory() as work:
        campaign = Campaign(Path(work).resolve())

        def told(finding: Finding) -> None:
            place = campaign.save(finding, given.findings)
            print(f"{finding.case}: {finding.fault}\n  saved in {place}", flush=True)

        try:
            if given.number is None:
                print(f"seed {given.seed}, {given.seconds:g} seconds", flush=True)
                campaign.tell = told
                found = campaign.run(given.seed, names, seconds=given.seconds)
            else:
                case = Case(names[0], given.seed, given.number)
                verdict = campaign.read(case)
                print(*(f"{key}: {value}" for key, value in verdict.items()), sep="\n")
                found = [campaign.smallest(case, verdict)] if verdict["fault"] else []
                for finding in found:
                    told(finding)
            if given.number is None:
                print(campaign.table())
        finally:
            campaign.close()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
