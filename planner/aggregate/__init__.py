"""What a simulation means: latencies and limits, load, power, energy, money, carbon, and how sure that is.

Read `metrics` for what every figure is (the one glossary), `inputs` for what comes in, `summary` for the road from one
simulation to a tree of figures, `intervals` for means over seeds, `result` for what goes out and how it is stored.
The figures themselves: `latency`, `slo`, `work` and `utilisation`, `power`, `energy`, `cost`, `carbon`, `evidence`.
"""
