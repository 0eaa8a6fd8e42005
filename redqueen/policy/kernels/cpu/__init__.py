"""Loops over tensors that Numba compiles for a CPU: what lies between the base's products."""
