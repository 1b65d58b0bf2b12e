"""All compiled loops, one file per data structure.

A kernel calls only kernels of its own file: numba's cache does not notice an edit to a callee
that lives elsewhere, and would run stale code.
"""
