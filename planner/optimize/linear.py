"""A small linear or integer program, built by rows and columns and handed to HiGHS: same input, same answer."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

INF = math.inf


@dataclass(frozen=True, slots=True)
class Stop:
    """When a search ends before it has proven its answer."""

    gap_frac: float = 1e-3
    nodes: int = 200_000
    time_s: float | None = None
    until_s: float | None = None
    """When the time is up, on this machine's clock: set once, so that all steps of a search share the time."""

    def begun(self) -> Stop:
        """The same, its time running from now on."""
        if self.time_s is None or self.until_s is not None:
            return self
        return replace(self, until_s=time.monotonic() + self.time_s)

    def left_s(self) -> float | None:
        """What is left of the time; None without a limit."""
        until = self.begun().until_s
        return None if until is None else max(1e-3, until - time.monotonic())

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until_s is not None and time.monotonic() >= self.until_s


@dataclass(frozen=True, slots=True)
class Answer:
    """What the solver found."""

    status: str
    """optimal (within the gap), stopped (by nodes or time), infeasible, or none (stopped without any plan)."""
    values: tuple[float, ...] = ()
    objective: float = INF
    bound: float = -INF
    nodes: int = 0
    duals: tuple[float, ...] = ()
    """Of the rows, for a program without whole numbers."""
    is_timed_out: bool = False

    @property
    def gap_frac(self) -> float:
        """How far the proof is from the answer."""
        if self.objective == self.bound:
            return 0.0
        return abs(self.objective - self.bound) / max(abs(self.objective), 1e-12)


@dataclass(slots=True)
class Program:
    """Minimise cost . x over lower <= x <= upper and lower <= A x <= upper, some x whole."""

    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[float, float, list[int], list[float]]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of the rows."""

    def column(self, lower: float = 0.0, upper: float = INF, *, cost: float = 0.0, is_whole: bool = False) -> int:
        """A new variable; its number."""
        self.cost.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.whole.append(is_whole)
        return len(self.cost) - 1

    def row(self, terms: Mapping[int, float], lower: float = -INF, upper: float = INF, *, name: str = "") -> int:
        """A new row; its number."""
        columns = sorted(column for column, factor in terms.items() if factor)
        self.rows.append((lower, upper, columns, [terms[column] for column in columns]))
        self.names.append(name)
        return len(self.rows) - 1

    def solve(
        self, stop: Stop | None = None, *, is_relaxed: bool = False, start: Sequence[float] | None = None
    ) -> Answer:
        """The best values; `is_relaxed` lets whole numbers be any, and gives duals; `start` is a plan to begin with."""
        import highspy
        import numpy as np

        stop = stop or Stop()
        is_integer = any(self.whole) and not is_relaxed
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.rows)
        lp.col_cost_ = np.array(self.cost, dtype=np.double)
        lp.col_lower_ = np.array(self.lower, dtype=np.double)
        lp.col_upper_ = np.array(self.upper, dtype=np.double)
        lp.row_lower_ = np.array([row[0] for row in self.rows], dtype=np.double)
        lp.row_upper_ = np.array([row[1] for row in self.rows], dtype=np.double)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(row[2]) for row in self.rows)]).astype(np.int32)
        lp.a_matrix_.index_ = np.array([c for row in self.rows for c in row[2]], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([v for row in self.rows for v in row[3]], dtype=np.double)
        if is_integer:
            kinds = highspy.HighsVarType
            lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in self.whole]
        solver = highspy._core._Highs()  # `highspy.Highs` prints a banner on stdout when it is made
        for name, value in (
            ("log_to_console", False),
            ("output_flag", False),
            ("threads", 1),
            ("parallel", "off"),
            ("random_seed", 0),
            ("mip_rel_gap", stop.gap_frac),
            ("mip_abs_gap", 1e-9),
            ("mip_max_nodes", stop.nodes),
            ("mip_feasibility_tolerance", 1e-7),
        ):
            solver.setOptionValue(name, value)
        left_s = stop.left_s()
        if left_s is not None:
            solver.setOptionValue("time_limit", left_s)
        solver.passModel(lp)
        if start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = list(start)
            solver.setSolution(solution)
        solver.run()
        return _answer(solver, is_integer=is_integer)


def _answer(solver: object, *, is_integer: bool) -> Answer:
    import highspy

    status = solver.getModelStatus()  # type: ignore[attr-defined]
    known = highspy.HighsModelStatus
    info = solver.getInfo()  # type: ignore[attr-defined]
    if status in {known.kInfeasible, known.kUnboundedOrInfeasible}:
        return Answer("infeasible")
    timed_out = status == known.kTimeLimit
    has_plan = info.primal_solution_status == 2  # a feasible point
    if not has_plan:
        return Answer("none", is_timed_out=timed_out)
    solution = solver.getSolution()  # type: ignore[attr-defined]
    values = tuple(float(v) for v in solution.col_value)
    objective = float(info.objective_function_value)
    if not is_integer:
        duals = tuple(float(v) for v in solution.row_dual)
        word = "optimal" if status == known.kOptimal else "stopped"
        return Answer(word, values, objective, objective, 0, duals, is_timed_out=timed_out)
    word = "optimal" if status == known.kOptimal else "stopped"
    return Answer(
        word,
        values,
        objective,
        float(info.mip_dual_bound),
        int(info.mip_node_count),
        is_timed_out=timed_out,
    )
