"""Solve rates of weights against delay, loss and activity, one `sheaf eval` each.

    python3 tools/asynchronous/rates.py --task maze --data mazes.npz --weights "in step=a.safetensors" "out of step=b.safetensors"

Agents that diverge are "nan". Rows go to results/asynchronous/rates.csv (task, kind, weights, value, share solved); rows that are there already are kept, so that
an interrupted run goes on. Needs nothing beyond Python.
"""

import argparse
import csv
import json
import pathlib
import subprocess

LAGS = {
    "delay": ["0", "1", "2", "5", "10", "20"],
    "loss": ["0", "0.05", "0.1", "0.2", "0.4", "0.6"],
    "activity": ["1", "0.95", "0.9", "0.8", "0.6", "0.4"],
}
HEADER = ["task", "kind", "weights", "value", "solved"]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sheaf", default="target/release/sheaf")
    parser.add_argument("--task", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", nargs="+", required=True, metavar="NAME=FILE")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--key", default="solved", help="the JSON key of the share")
    parser.add_argument("--kinds", nargs="+", default=list(LAGS))
    parser.add_argument("--options", nargs="*", default=[], help="further options of eval, without their dashes")
    parser.add_argument("--out", default="results/asynchronous/rates.csv")
    return parser.parse_args()


def share(args, weights, lag):
    command = [args.sheaf, "--json", "eval", "--weights", weights, "--data", args.data, "--threads", "1"]
    command += ["--asynchronous", lag] + ["--" + option for option in args.options]
    if args.iterations:
        command += ["--iterations", str(args.iterations)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0 and "finite" in answer.stderr:
        return "nan"  # the agents diverge
    answer.check_returncode()
    return json.loads(answer.stdout)[args.key]


def main():
    args = arguments()
    out = pathlib.Path(args.out)
    rows = list(csv.reader(out.open()))[1:] if out.exists() else []
    done = {tuple(row[:4]) for row in rows}
    for named in args.weights:
        name, file = named.split("=", 1)
        for kind in args.kinds:
            for value in LAGS[kind]:
                if (args.task, kind, name, value) in done:
                    continue
                rows.append([args.task, kind, name, value, share(args, file, f"{kind}={value}")])
                print(*rows[-1], flush=True)
                with out.open("w", newline="") as file_out:
                    csv.writer(file_out, lineterminator="\n").writerows([HEADER] + rows)


main()
