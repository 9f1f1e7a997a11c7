"""OSQP for `sheaf bench problems`: reads a program from stdin, prints one line of JSON and then x to stdout.

The first line of stdin is JSON: n, rows, p, a (numbers of entries), tol, limit (seconds). Then follow, in little
endian, rows, columns and values of the upper triangle of P, q, rows, columns and values of A, lower and upper ends.
"""

import ctypes
import json
import resource
import sys
import time

# Ends with the process that started it, also inside a long factorisation.
try:
    ctypes.CDLL(None).prctl(1, 9)
except (OSError, AttributeError):
    pass


def main():
    try:
        import numpy as np
        import osqp
        from scipy import sparse
    except ImportError as error:
        print(json.dumps({"status": f"not available: {error}"}))
        return
    given = json.loads(sys.stdin.buffer.readline())
    n, rows = given["n"], given["rows"]

    def take(count, kind):
        return np.frombuffer(sys.stdin.buffer.read(count * np.dtype(kind).itemsize), dtype=kind)

    def entries(count):
        return take(count, "<u4"), take(count, "<u4"), take(count, "<f8")

    p, q, a = entries(given["p"]), take(n, "<f8"), entries(given["a"])
    lower, upper = take(rows, "<f8"), take(rows, "<f8")
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        p = sparse.csc_matrix((p[2], (p[0], p[1])), shape=(n, n))
        # Without rows there is nothing to split; one that never binds stands for none.
        if rows == 0:
            a, lower, upper = sparse.csc_matrix((1, n)), np.array([-1.0]), np.array([1.0])
        else:
            a = sparse.csc_matrix((a[2], (a[0], a[1])), shape=(rows, n))
        solver = osqp.OSQP()
        solver.setup(
            p, q, a, lower, upper, verbose=False, eps_abs=given["tol"], eps_rel=given["tol"],
            max_iter=1_000_000, time_limit=given["limit"],
        )
        result = solver.solve()
    except (MemoryError, osqp.OSQPException) as error:
        print(json.dumps({"status": f"failed: {type(error).__name__} {error}"}))
        return
    cost = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    x = np.ascontiguousarray(result.x, dtype="<f8")
    report = {"status": result.info.status, "iterations": result.info.iter, "peak_rss_mb": peak, "len": len(x)}
    print(json.dumps({**report, **cost}), flush=True)
    sys.stdout.buffer.write(x.tobytes())


main()
