"""The convex program behind `lmcourse.tasks.best_loss`: logistic regression in a box, with a certificate.

Minimise ``f(v) = sum_i w_i log(1 + exp(-v.a_i))`` over ``|v|_inf <= B``, or over those ``v`` that are
``Phi^T head``. An interior-point method finds the answer; a local method improves it where weights are huge
or losses tiny.

The certificate is plain arithmetic. With ``u_i = sigma(-v.a_i)`` the gradient of ``f`` at ``v`` is ``-c``,
``c = sum_i w_i u_i a_i``, and ``f`` lies above its tangent: the infimum is at least ``f(v) + v.c - max
v'.c``. On the box the maximum is ``B |c|_1``. With word vectors it is at most ``B (|z|_1 + |r|_1)`` for any
``z``, with ``r`` the part of ``c - z`` in the span of the rows of ``Phi``; the multipliers of the box give a
``z`` for which ``r`` is rounding. The class depends only on that span, so an orthonormal basis of it stands
for ``Phi`` throughout; what rounding may have turned the basis is charged to the gap too.
"""

import warnings
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class BestLoss(NamedTuple):
    """The best classifier of a class: its ``loss``, how far that can be from the infimum, and the weights.

    ``loss`` is attained by ``v``, which lies in the class; the infimum is at least ``loss - gap``. ``head``
    gives ``v = Phi^T head``, and is None where all ``v`` are allowed.
    """

    loss: float
    gap: float
    v: Array
    head: Array | None


class LogisticProgram:
    """Logistic regression in a box, compiled once for many boxes.

    Parameters
    ----------
    signed : ndarray, shape (N, V)
        Rows ``a_i = y_i g(s_i)``: features times label.
    weights : ndarray, shape (N,)
        Probabilities ``w_i`` of the rows.
    phi : ndarray, shape (d, V), optional
        Word vectors as columns, finite. Rows are brought to one size first; one that depends on the others
        within rounding is then dropped.
    """

    def __init__(self, signed: Array, weights: Array, phi: Array | None = None) -> None:
        self.signed = signed
        self.weights = weights
        self.span = None if phi is None else _Span(phi)
        # Rows in terms of the unknown: v itself, or its coordinates in the span of Phi.
        self.rows = signed if self.span is None else signed @ self.span.basis.T
        self._compiled: tuple[Any, Any, Any, Any] | None = None

    def solve(self, bound: float, tolerance: float) -> BestLoss:
        """Minimise over the box of size ``bound``; RuntimeError if the gap stays above ``tolerance``."""
        if not 0 <= bound < np.inf:
            raise ValueError(f"bound must be finite and at least 0; got {bound}")
        if bound == 0 or self.rows.shape[1] == 0:
            return self._certify(0.0, np.zeros(self.rows.shape[1]))
        result = self._interior_point(bound)
        if result.gap > 1e-10:
            result = min(result, self._local(bound, result), key=lambda r: r.gap)
        if not result.gap <= tolerance:
            raise RuntimeError(
                f"best loss at bound {bound} is certified only to {result.gap:.1e}, not {tolerance:.1e}: "
                "scale the problem, or accept a larger tolerance"
            )
        return result

    def _interior_point(self, bound: float) -> BestLoss:
        if self._compiled is None:
            try:
                cp: Any = import_module("cvxpy")
            except ImportError as error:
                message = 'the convex solver is missing; in the course\'s folder: pip install ".[solvers]"'
                raise ImportError(message) from error
            size, unknown = cp.Parameter(nonneg=True), cp.Variable(self.rows.shape[1])
            v = unknown if self.span is None else self.span.basis.T @ unknown
            loss = self.weights @ cp.logistic(-(self.rows @ unknown))
            problem = cp.Problem(cp.Minimize(loss), [v <= size, v >= -size])
            self._compiled = cp, problem, size, unknown
        cp, problem, size, unknown = self._compiled
        size.value = float(bound)
        try:
            with warnings.catch_warnings():
                # "Solution may be inaccurate": the gap says how inaccurate.
                warnings.simplefilter("ignore", UserWarning)
                problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        except cp.error.SolverError as error:
            raise RuntimeError(f"Clarabel could not find the best loss at bound {bound}: {error}") from error
        if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            raise RuntimeError(f"Clarabel ended with status {problem.status!r} at bound {bound}")
        above, below = (np.asarray(c.dual_value, dtype=float) for c in problem.constraints)
        return self._certify(bound, np.asarray(unknown.value, dtype=float), above - below)

    def _local(self, bound: float, start: BestLoss) -> BestLoss:
        from scipy.optimize import minimize

        def objective(unit: Array) -> tuple[float, Array]:
            margins = bound * (self.rows @ unit)
            slope = (self.weights * np.exp(-np.logaddexp(0.0, margins))) @ self.rows
            return float(self.weights @ np.logaddexp(0.0, -margins)), -bound * slope

        if self.span is None:
            found = minimize(
                objective,
                start.v / bound,
                jac=True,
                method="L-BFGS-B",
                bounds=[(-1, 1)] * self.rows.shape[1],
                options={"ftol": 0.0, "gtol": 1e-14, "maxiter": 2000, "maxfun": 4000},
            )
            return self._certify(bound, bound * found.x)
        at = self.span.basis @ start.v
        sides = np.vstack([self.span.basis.T, -self.span.basis.T])
        found = minimize(
            objective,
            at / bound,
            jac=True,
            method="SLSQP",
            constraints=[{"type": "ineq", "fun": lambda unit: 1 - sides @ unit, "jac": lambda unit: -sides}],
            options={"ftol": 1e-16, "maxiter": 300},
        )
        answers = [self._certify(bound, place) for place in (at, bound * found.x)]
        return min(answers, key=lambda r: r.gap)

    def _certify(self, bound: float, found: Array, witness: Array | None = None) -> BestLoss:
        """Move an answer into the class and bound its distance from the infimum."""
        if self.span is None:
            head, v = None, np.clip(found, -bound, bound)
        else:
            head, v = self.span.head(found, bound)
        margins = self.signed @ v
        slope = (self.weights * np.exp(-np.logaddexp(0.0, margins))) @ self.signed
        if self.span is None:
            length = float(np.abs(slope).sum())
        else:
            witness = _shortest(self.span.basis, slope) if witness is None else witness
            witness = witness + self.span.project(slope - witness)
            rest = slope - witness
            length = float(np.abs(witness).sum() + np.abs(self.span.project(rest)).sum())
            length += self.span.turned * float(np.sqrt(len(rest)) * np.linalg.norm(rest))
        gap = max(0.0, bound * length - float(v @ slope))
        return BestLoss(float(self.weights @ np.logaddexp(0.0, -margins)), gap, v, head)


class _Span:
    """The span of the rows of ``Phi``: an orthonormal ``basis`` of it, and the heads that reach its vectors.

    ``turned`` bounds the angle by which rounding can have turned the basis.
    """

    def __init__(self, phi: Array) -> None:
        size = np.abs(phi).max(axis=1, initial=0.0)
        # Powers of two, so that scaling rounds nothing.
        self._powers = -np.frexp(size)[1]
        self._rows = np.ldexp(phi, self._powers[:, None])
        left, sizes, basis = np.linalg.svd(self._rows, full_matrices=False)
        rounding = 10 * np.finfo(float).eps * max(phi.shape) * sizes.max(initial=0.0)
        kept = sizes > rounding
        self.turned = float(rounding / sizes[kept].min()) if kept.any() else 0.0
        self.basis: Array = basis[kept]
        self._back = left[:, kept] / sizes[kept]

    def project(self, x: Array) -> Array:
        nearest: Array = self.basis.T @ (self.basis @ x)
        return nearest

    def head(self, place: Array, bound: float) -> tuple[Array, Array]:
        """Head for the vector with these coordinates, and the vector, ``Phi^T head``, shrunk into the box."""
        scaled = self._back @ place
        # Once more on what rounding left, which matters where rows are nearly dependent.
        scaled = scaled + self._back @ (place - self.basis @ (self._rows.T @ scaled))
        v = self._rows.T @ scaled
        shrink = min(1.0, bound / max(float(np.abs(v).max()), 1e-300))
        with np.errstate(over="ignore"):
            head = np.ldexp(scaled * shrink, self._powers)
        if not np.isfinite(head).all():
            raise ValueError("a row of feature_map is so small that its head overflows: multiply it up")
        return head, v * shrink


def _shortest(phi: Array, slope: Array) -> Array:
    """Vector ``z`` of smallest 1-norm with ``Phi z = Phi slope``, by linear programming."""
    from scipy.optimize import linprog

    target = phi @ slope
    scale = max(float(np.abs(target).max(initial=0.0)), 1e-300)
    columns = np.hstack([phi, -phi])
    solution = linprog(np.ones(columns.shape[1]), A_eq=columns, b_eq=target / scale, method="highs")
    if solution.status != 0:
        return slope
    z: Array = scale * (solution.x[: len(slope)] - solution.x[len(slope) :])
    return z
