"""Where a function of one number is zero: on a grid first, then by false position with Illinois's step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Function = Callable[[float], float | None]


def grid(low: float, high: float, n: int) -> list[float]:
    """`n` evenly spaced values, both ends included.

    >>> grid(0.0, 1.0, 3)
    [0.0, 0.5, 1.0]
    """
    return [low + (high - low) * ix / (n - 1) for ix in range(n - 1)] + [high]


def crossings(f: Function, xs: Sequence[float], ys: Sequence[float | None], *, rel: float, most: int) -> list[float]:
    """The zeros of `f` between neighbours of `xs` (its values are `ys`) where the sign changes, in order.

    Each is found to `rel` of the range, or by `most` more calls. A missing value hides what it stands between.
    """
    found: list[float] = []
    for (a, fa), (b, fb) in zip(zip(xs, ys, strict=True), zip(xs[1:], ys[1:], strict=True), strict=False):
        if fa is None or fb is None:
            continue
        if fa == 0:
            found.append(a)
        elif fa * fb < 0:
            found.append(root(f, a, fa, b, fb, tolerance=rel * abs(xs[-1] - xs[0]), most=most))
    if ys and ys[-1] == 0:
        found.append(xs[-1])
    return list(dict.fromkeys(found))


def root(f: Function, a: float, fa: float, b: float, fb: float, *, tolerance: float, most: int) -> float:
    """The zero of `f` between `a` and `b`, at which its signs differ: exact in one step where it is a line.

    The end that stays twice counts half (Dowell, Jarratt, BIT 11, 1971), so that no end stays for ever.
    """
    side = 0
    best = a if abs(fa) < abs(fb) else b
    for _ in range(most):
        if abs(b - a) <= tolerance:
            break
        c = (a * fb - b * fa) / (fb - fa)
        fc = f(c)
        if fc is None:
            return best
        best = c
        if fc == 0 or abs(c - a) <= tolerance * 1e-3 or abs(c - b) <= tolerance * 1e-3:
            break
        if (fc > 0) == (fb > 0):
            b, fb = c, fc
            fa = fa / 2 if side == -1 else fa
            side = -1
        else:
            a, fa = c, fc
            fb = fb / 2 if side == 1 else fb
            side = 1
    return best
