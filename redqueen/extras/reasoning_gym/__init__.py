"""Generators of the library reasoning-gym as kinds of tasks, for students alone (extra `gym`).

There is a kind for each generator and its settings, made when it is named: `reasoning_gym:chain_sum:max_terms=3`.
"""
