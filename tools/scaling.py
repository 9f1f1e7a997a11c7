#!/usr/bin/env python3
"""The model of docs/scaling.md: seconds per iteration of a grid of agents on several ranks.

    t = n c  +  E max(0, a + h / B - o n c / E)  +  S (a log2 P + 4 C / B)

n agents of a rank, c seconds per agent and iteration; E exchanges of h bytes; o the part of the work that hides them;
S sums over C chunks of all ranks; a latency, B bytes per second. Without arguments it prints the tables of the document.
"""

import argparse
import math

EXCHANGES, SUMS = 6, 11  # of an iteration with five steps of conjugate gradients
ROW_BYTES = 3 * 5 * 4  # three slots of five numbers of four bytes for each agent at a straight cut
CHUNK = 4096


def iteration(agents, ranks, c, latency, bandwidth, overlap):
    """Seconds of an iteration, and of its parts."""
    chunks = math.ceil(agents / CHUNK)
    own = math.ceil(chunks / ranks) * CHUNK if ranks > 1 else agents
    own = min(own, agents)
    width = math.sqrt(agents)
    work = own * c
    if ranks == 1:
        return work, work, 0.0, 0.0
    neighbours = 1 if ranks == 2 else 2
    message = latency + neighbours * width * ROW_BYTES / bandwidth
    exchange = EXCHANGES * max(0.0, message - overlap * work / EXCHANGES)
    sums = SUMS * (latency * math.ceil(math.log2(ranks)) + 4 * chunks / bandwidth)
    return work + exchange + sums, work, exchange, sums


def table(kind, c, latency, bandwidth, overlap, cores):
    print(f"\n{kind}: c = {c * 1e9:.0f} ns, latency {latency * 1e6:.1f} us, {bandwidth / 1e9:.1f} GB/s, {cores} ranks each\n")
    machines = [1, 4, 16, 64, 256, 1024]
    print("| agents | " + " | ".join(str(m) for m in machines) + " |")
    print("| --- |" + " --- |" * len(machines))
    for power in range(6, 10):
        agents = 10**power
        row = []
        for m in machines:
            ranks = m * cores
            if ranks > math.ceil(agents / CHUNK):
                row.append("–")
                continue
            t = iteration(agents, ranks, c, latency, bandwidth, overlap)[0]
            alone = iteration(agents, 1, c, latency, bandwidth, overlap)[0]
            row.append(f"{t * 1e3:.3g} ms ({alone / t / ranks:.0%})")
        print(f"| 10^{power} | " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--c", type=float, required=True, help="nanoseconds per agent and iteration of one rank")
    parser.add_argument("--overlap", type=float, default=0.9, help="the part of the work that hides exchanges")
    parser.add_argument("--one", nargs=4, type=float, metavar=("AGENTS", "RANKS", "LATENCY_US", "MB_PER_S"),
                        help="print one prediction in milliseconds: all, work, exchange, sums")
    given = parser.parse_args()
    if given.one:
        agents, ranks, latency, bandwidth = given.one
        parts = iteration(int(agents), int(ranks), given.c * 1e-9, latency * 1e-6, bandwidth * 1e6, given.overlap)
        print("  ".join(f"{part * 1e3:.3f}" for part in parts))
        return
    table("Two cores, 10 Gb/s Ethernet", given.c * 1e-9, 30e-6, 1.1e9, given.overlap, 2)
    table("64 cores, 100 Gb/s InfiniBand", given.c * 1e-9, 2e-6, 12e9 / 8, given.overlap, 64)


if __name__ == "__main__":
    main()
