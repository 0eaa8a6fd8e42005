"""The child side of the sandbox: what runs in the zygote and in its children. Standard library only.

`zygote.py` is started as a script, so these modules import each other by bare name. The parent imports two of them
as part of the package: `protocol` and `values`.
"""
