"""From facts to deployments of the core: what runs on a chip, at which precision, in which layout.

Start at `spec.py` (facts -> the deployment spec that the core reads); `precision.py` says which bytes are stored and
which rate computes them; `choose.py` picks the layout that a scenario leaves open, for the `Wish` of `wish.py`.
No step-time arithmetic lives here.
"""
