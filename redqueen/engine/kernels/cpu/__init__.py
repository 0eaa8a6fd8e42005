"""Kernels that Numba compiles for a CPU: what the decoder computes between the base's products."""
