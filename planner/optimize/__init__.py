"""What to buy: fleets proposed by an integer program and proved by simulation.

Every plan goes the same road as a fleet that is given: laid out, simulated and summed up by `planner.study`.
"""
