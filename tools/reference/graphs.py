"""Agent graphs, and the coboundary F of a sheaf on them as one dense matrix.

An edge e joins u and v; its residual is (F z)_e = M_u z_u - M_v z_v. Where the two maps come from depends on the
kind of maps; `coboundary` reads the arrays that kind needs:

    kind      arrays                                              map of agent i at its slot s
    shared    maps [S, d_e, d_v]                                  maps[s]
    table     stacks [V, S, d_e, d_v], stack_of [N]               stacks[stack_of[i], s]
    lowrank   maps [S, d_e, d_v], A [N, S, d_e, r], B [N, S, d_v, r]   maps[s] + (1 / r) A[i, s] B[i, s]^T
    edgewise  maps_u, maps_v: each edge's map, one after the other, row-major (no slots, any stalk sizes)
"""

import numpy as np

# Row and column steps of the eight directions, in slot order N, NE, E, SE, S, SW, W, NW.
STEPS = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]


class Graph:
    """Stalk sizes of agents and edges, end points, and slots (-1 where a graph has none)."""

    def __init__(self, stalks, edges, edge_stalks, slots):
        self.stalks, self.edge_stalks = list(stalks), list(edge_stalks)
        self.edges, self.slots = np.array(edges, np.int32), np.array(slots, np.int32)
        self.offsets = np.concatenate([[0], np.cumsum(self.stalks)])

    def state_len(self):
        return int(self.offsets[-1])

    def block(self, agent):
        """Where an agent's numbers lie in a state vector."""
        return slice(self.offsets[agent], self.offsets[agent + 1])


def grid8(height, width, d_v, d_e):
    """Agents on a grid, each joined to its eight neighbours; every edge once, from the agent that comes first."""
    edges, slots = [], []
    for row in range(height):
        for col in range(width):
            for slot in (2, 4, 3, 5):  # E, S, SE, SW: the directions that lead forward
                to_row, to_col = row + STEPS[slot][0], col + STEPS[slot][1]
                if to_row < height and 0 <= to_col < width:
                    edges.append((row * width + col, to_row * width + to_col))
                    slots.append((slot, (slot + 4) % 8))
    return Graph([d_v] * (height * width), edges, [d_e] * len(edges), slots)


def irregular():
    """Five agents and seven edges of different stalk sizes; agents 2 and 3 are joined twice."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (3, 2)]
    return Graph([3, 2, 4, 3, 2], edges, [1, 2, 2, 1, 1, 1, 1], [(-1, -1)] * 7)


def end_map(kind, arrays, agent, slot):
    """The restriction map of one end of an edge, for the kinds that have slots."""
    if kind == "shared":
        return arrays["maps"][slot]
    if kind == "table":
        return arrays["stacks"][arrays["stack_of"][agent], slot]
    a, b = arrays["A"][agent, slot], arrays["B"][agent, slot]
    return arrays["maps"][slot] + (a @ b.T) / a.shape[1]


def coboundary(graph, kind, arrays):
    """F, [sum of edge stalks, sum of stalks]."""
    rows = np.concatenate([[0], np.cumsum(graph.edge_stalks)])
    matrix = np.zeros((rows[-1], graph.state_len()), complex)
    taken = {"maps_u": 0, "maps_v": 0}
    for e, ends in enumerate(graph.edges):
        for agent, slot, side, sign in zip(ends, graph.slots[e], ("maps_u", "maps_v"), (1, -1)):
            if kind == "edgewise":
                shape = (graph.edge_stalks[e], graph.stalks[agent])
                count = shape[0] * shape[1]
                map_ = arrays[side][taken[side] : taken[side] + count].reshape(shape)
                taken[side] += count
            else:
                map_ = end_map(kind, arrays, agent, slot)
            matrix[rows[e] : rows[e + 1], graph.block(agent)] += sign * map_
    return matrix
