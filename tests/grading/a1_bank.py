"""The fairness bank of assignment 1: plausible wrong answers, and right ones that are written differently.

A wrong answer has the right type and shape and is right on some public case; it must lose points whatever
the overlay's seed. A right one must get all. None of this is ever given to a student.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special, stats

Answer = Callable[..., Any]
RIGHT: dict[str, list[Answer]] = defaultdict(list)
WRONG: dict[str, list[Answer]] = defaultdict(list)


def right(question: str) -> Callable[[Answer], Answer]:
    """Enter a right answer to a question."""
    return lambda answer: RIGHT[question].append(answer) or answer


def wrong(question: str) -> Callable[[Answer], Answer]:
    """Enter a wrong answer to a question; its docstring says what is wrong."""
    return lambda answer: WRONG[question].append(answer) or answer


# ---------------------------------------------------------------- 1, divergence


@right("kl-divergence")
def kl_by_scipy(p, q):
    return special.rel_entr(p, q).sum(axis=1)


@right("kl-divergence")
def kl_by_loops(p, q):
    found = []
    for p_row, q_row in zip(p, q, strict=True):
        total = 0.0
        for a, b in zip(p_row, q_row, strict=True):
            if a > 0:
                total += a * np.log(a / b) if b > 0 else np.inf
        found.append(total)
    return np.array(found)


@right("kl-divergence")
def kl_by_entropies(p, q):
    cross = np.array([-sum(a * np.log(b) for a, b in zip(*rows, strict=True) if a > 0 and b > 0)
                      for rows in zip(p, q, strict=True)])  # fmt: skip
    cross[((p > 0) & (q == 0)).any(axis=1)] = np.inf
    return cross - stats.entropy(p, axis=1)


@wrong("kl-divergence")
def kl_kept_off_zero(p, q):
    """Adds a small number to both, so that nothing is infinite."""
    return (p * np.log((p + 1e-12) / (q + 1e-12))).sum(axis=1)


@wrong("kl-divergence")
def kl_on_common_words(p, q):
    """Leaves out every word that either law rules out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((p > 0) & (q > 0), p * np.log(p / q), 0).sum(axis=1)


@wrong("kl-divergence")
def kl_with_nan(p, q):
    """Does not think of 0 log 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (p * np.log(p / q)).sum(axis=1)


@wrong("kl-divergence")
def kl_the_other_way(p, q):
    """Weighs the logarithms by q."""
    return special.rel_entr(q, p).sum(axis=1)


@wrong("kl-divergence")
def kl_infinite_together(p, q):
    """Calls all rows infinite if one is."""
    found = special.rel_entr(p, q).sum(axis=1)
    return np.full_like(found, np.inf) if np.isinf(found).any() else found


@wrong("kl-divergence")
def kl_nan_is_zero(p, q):
    """Takes every NaN and infinity for zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(p * np.log(p / q), nan=0, posinf=0, neginf=0).sum(axis=1)


# ---------------------------------------------------------------- 2, scorecard


@right("scorecard")
def scorecard_by_difference(p_L, truth, model):
    def surprise(law):
        return -special.xlogy(truth, law).sum(axis=1)

    met = p_L > 0
    cross = (p_L[met] * surprise(model)[met]).sum()
    return cross, cross - (p_L[met] * surprise(truth)[met]).sum()


@right("scorecard")
def scorecard_by_loops(p_L, truth, model):
    cross = excess = 0.0
    for s, w in np.argwhere((p_L[:, None] * truth) > 0):
        share = p_L[s] * truth[s, w]
        if model[s, w] == 0:
            return float("inf"), float("inf")
        cross -= share * np.log(model[s, w])
        excess += share * (np.log(truth[s, w]) - np.log(model[s, w]))
    return cross, excess


@right("scorecard")
def scorecard_by_joint_law(p_L, truth, model):
    joint = p_L[:, None] * truth
    excess = special.rel_entr(joint, p_L[:, None] * model).sum()
    return excess + special.entr(joint).sum() - special.entr(p_L).sum(), excess


@wrong("scorecard")
def scorecard_unweighted(p_L, truth, model):
    """Averages contexts as if all were equally likely."""
    return scorecard_by_joint_law(np.full(len(p_L), 1 / len(p_L)), truth, model)


@wrong("scorecard")
def scorecard_in_bits_of_the_model(p_L, truth, model):
    """Takes the entropy of the model from the cross-entropy."""
    cross, _ = scorecard_by_difference(p_L, truth, model)
    return cross, cross - p_L @ special.entr(model).sum(axis=1)


@wrong("scorecard")
def scorecard_excess_is_all(p_L, truth, model):
    """Takes the cross-entropy for the excess."""
    cross, _ = scorecard_by_difference(p_L, truth, model)
    return cross, cross


@wrong("scorecard")
def scorecard_unmet_contexts(p_L, truth, model):
    """Meets 0 times infinity where the corpus never goes."""
    with np.errstate(invalid="ignore"):
        surprise = -special.xlogy(truth, model).sum(axis=1)
        return p_L @ surprise, p_L @ special.rel_entr(truth, model).sum(axis=1)


@wrong("scorecard")
def scorecard_clipped(p_L, truth, model):
    """Keeps the model away from zero."""
    return scorecard_by_difference(p_L, truth, np.maximum(model, 1e-15))


@wrong("scorecard")
def scorecard_the_other_way(p_L, truth, model):
    """Has the divergence of the model from the truth the wrong way round."""
    cross, _ = scorecard_by_difference(p_L, truth, model)
    met = p_L > 0
    return cross, p_L[met] @ special.rel_entr(model, truth)[met].sum(axis=1)


# ---------------------------------------------------------------- 3, next words


@right("next-word-law")
def next_word_by_windows(text, context, n_words, alpha):
    while True:
        k = len(context)
        counts = np.full(n_words, float(alpha))
        if len(text) > k:
            windows = np.lib.stride_tricks.sliding_window_view(text, k + 1)
            hits = windows[(windows[:, :k] == context).all(axis=1), k]
            counts += np.bincount(hits, minlength=n_words)
        if counts.sum() > 0:
            return counts / counts.sum()
        context = context[1:]


@right("next-word-law")
def next_word_by_counter(text, context, n_words, alpha):
    for start in range(len(context) + 1):
        tail = tuple(context[start:])
        k = len(tail)
        seen = Counter(int(text[i + k]) for i in range(len(text) - k) if tuple(text[i : i + k]) == tail)
        if seen or alpha > 0:
            return np.array([(seen[w] + alpha) / (sum(seen.values()) + alpha * n_words)
                             for w in range(n_words)])  # fmt: skip
    raise AssertionError("the empty context stands before every word")


@right("next-word-law")
def next_word_by_sieve(text, context, n_words, alpha):
    places = np.arange(len(text))
    found = [places]
    for back, word in enumerate(reversed(list(context)), start=1):
        places = places[places >= back]
        places = places[text[places - back] == word]
        found.append(places)
    if alpha == 0:
        places = next(p for p in reversed(found) if len(p))
    counts = np.array([(text[places] == w).sum() for w in range(n_words)])
    return (counts + alpha) / (len(places) + alpha * n_words)


def _followers(text, context, n_words):
    k = len(context)
    counts = np.zeros(n_words)
    for i in range(k, len(text)):
        if np.array_equal(text[i - k : i], context):
            counts[text[i]] += 1
    return counts


@wrong("next-word-law")
def next_word_counts_the_end(text, context, n_words, alpha):
    """Divides by all occurrences of the context, also the one that ends the text."""
    counts, k = _followers(text, context, n_words), len(context)
    occurrences = sum(np.array_equal(text[i : i + k], context) for i in range(len(text) - k + 1))
    total = (occurrences if k else len(text)) + alpha * n_words
    if total == 0:
        return next_word_counts_the_end(text, context[1:], n_words, alpha)
    return (counts + alpha) / total


@wrong("next-word-law")
def next_word_drops_the_nearest(text, context, n_words, alpha):
    """Backs off by forgetting the word nearest to the one to be predicted."""
    counts = _followers(text, context, n_words)
    total = counts.sum() + alpha * n_words
    if total == 0:
        return next_word_drops_the_nearest(text, context[:-1], n_words, alpha)
    return (counts + alpha) / total


@wrong("next-word-law")
def next_word_uniform_if_unseen(text, context, n_words, alpha):
    """Says the uniform law where a context never came."""
    counts = _followers(text, context, n_words)
    total = counts.sum() + alpha * n_words
    return (counts + alpha) / total if total > 0 else np.full(n_words, 1 / n_words)


@wrong("next-word-law")
def next_word_always_backs_off(text, context, n_words, alpha):
    """Backs off although there are pseudo-counts to divide by."""
    counts = _followers(text, context, n_words)
    if counts.sum() == 0:
        return next_word_always_backs_off(text, context[1:], n_words, alpha)
    return (counts + alpha) / (counts.sum() + alpha * n_words)


@wrong("next-word-law")
def next_word_own_vocabulary(text, context, n_words, alpha):
    """Gives pseudo-counts only to words that the text uses."""
    counts = _followers(text, context, n_words)
    if counts.sum() + alpha == 0:
        return next_word_own_vocabulary(text, context[1:], n_words, alpha)
    used = np.isin(np.arange(n_words), text)
    return (counts + alpha * used) / (counts.sum() + alpha * used.sum())


@wrong("next-word-law")
def next_word_without_overlaps(text, context, n_words, alpha):
    """Searches on behind the end of each place, so that places never overlap."""
    k, i, counts = len(context), len(context), np.zeros(n_words)
    while i < len(text):
        hit = np.array_equal(text[i - k : i], context)
        counts[text[i]] += hit
        i += max(k, 1) if hit else 1
    total = counts.sum() + alpha * n_words
    if total == 0:
        return next_word_without_overlaps(text, context[1:], n_words, alpha)
    return (counts + alpha) / total


@wrong("next-word-law")
def next_word_forgets_the_vocabulary(text, context, n_words, alpha):
    """Adds the pseudo-count to the denominator once, not once for each word."""
    counts = _followers(text, context, n_words)
    total = counts.sum() + alpha
    if total == 0:
        return next_word_forgets_the_vocabulary(text, context[1:], n_words, alpha)
    return (counts + alpha) / total


# ---------------------------------------------------------------- 4, task loss


@right("task-loss")
def task_loss_by_labels(model, p_T, v):
    loss, gradient = 0.0, np.zeros(len(v))
    for column, y in ((0, -1), (1, 1)):
        margin = y * (model @ v)
        loss -= (p_T[:, column] * special.log_expit(margin)).sum()
        gradient -= ((p_T[:, column] * y * special.expit(-margin))[:, None] * model).sum(axis=0)
    return loss, gradient


@right("task-loss")
def task_loss_by_cases(model, p_T, v):
    loss, gradient = 0.0, [0.0] * len(v)
    for s in range(len(model)):
        for y, weight in zip((-1, 1), p_T[s], strict=True):
            m = y * float(np.dot(model[s], v))
            e = np.exp(-abs(m))
            loss += weight * (max(-m, 0) + np.log1p(e))
            slope = e / (1 + e) if m > 0 else 1 / (1 + e)
            for w in range(len(v)):
                gradient[w] -= weight * y * slope * model[s, w]
    return float(loss), np.array(gradient)


@right("task-loss")
def task_loss_by_stacking(model, p_T, v):
    rows, weights = np.concatenate([-model, model]), p_T.T.ravel()
    margins = np.einsum("sw,w->s", rows, v)
    slopes = (1 + np.tanh(-margins / 2)) / 2
    return weights @ np.logaddexp(0, -margins), -(weights * slopes) @ rows


@wrong("task-loss")
def task_loss_overflows(model, p_T, v):
    """Takes the exponential of a margin as it stands."""
    with np.errstate(over="ignore", invalid="ignore"):
        margins = np.stack([-(model @ v), model @ v])
        loss = (p_T.T * np.log(1 + np.exp(-margins))).sum()
        slopes = p_T.T * np.array([[-1], [1]]) * np.exp(-margins) / (1 + np.exp(-margins))
        return loss, -(slopes.sum(axis=0) @ model)


@wrong("task-loss")
def task_loss_clips_margins(model, p_T, v):
    """Clips the margins, to keep the exponential small."""
    margins = np.clip(np.stack([-(model @ v), model @ v]), -30, 30)
    loss = (p_T.T * np.log1p(np.exp(-margins))).sum()
    slopes = p_T.T * np.array([[-1], [1]]) / (1 + np.exp(margins))
    return loss, -(slopes.sum(axis=0) @ model)


@wrong("task-loss")
def task_loss_one_label(model, p_T, v):
    """Gives each context the likelier of its labels."""
    y = np.where(p_T[:, 1] >= p_T[:, 0], 1, -1)
    clean = p_T.sum(axis=1)[:, None] * (y[:, None] == [-1, 1])
    return task_loss_by_stacking(model, clean, v)


@wrong("task-loss")
def task_loss_expected_label(model, p_T, v):
    """Puts the expected label into the loss, in place of the expected loss."""
    mass = p_T.sum(axis=1)
    y = np.divide(p_T[:, 1] - p_T[:, 0], mass, out=np.zeros(len(mass)), where=mass > 0)
    margins = y * (model @ v)
    return mass @ np.logaddexp(0, -margins), -(mass * y * special.expit(-margins)) @ model


@wrong("task-loss")
def task_loss_averages(model, p_T, v):
    """Weighs all contexts of the task alike."""
    mass = p_T.sum(axis=1, keepdims=True)
    even = np.divide(p_T, mass, out=np.zeros_like(p_T), where=mass > 0) / (mass > 0).sum()
    return task_loss_by_stacking(model, even, v)


@wrong("task-loss")
def task_loss_coarse_differences(model, p_T, v):
    """Takes the gradient from one-sided differences with a step of 1e-6."""
    loss, steps = task_loss_by_stacking(model, p_T, v)[0], 1e-6 * np.eye(len(v))
    return loss, np.array([(task_loss_by_stacking(model, p_T, v + h)[0] - loss) / 1e-6 for h in steps])


@wrong("task-loss")
def task_loss_gradient_of_scores(model, p_T, v):
    """Forgets the factor sigma(-m) where the margin is not zero."""
    loss, _ = task_loss_by_stacking(model, p_T, v)
    return loss, -(p_T[:, 1] - p_T[:, 0]) / 2 @ model


# ---------------------------------------------------------------- 5, best weights


def _signed(model, p_T):
    return np.concatenate([-model, model]), p_T.T.ravel()


@right("best-weights")
def weights_by_default_solver(model, p_T, B):
    rows, weights = _signed(model, p_T)
    return optimize.minimize(
        lambda v: weights @ np.logaddexp(0, -(rows @ v)),
        np.zeros(model.shape[1]),
        bounds=[(-B, B)] * model.shape[1],
        options={"maxiter": 5000, "maxfun": 10**6},
    ).x


@right("best-weights")
def weights_by_quasi_newton(model, p_T, B):
    rows, weights = _signed(model, p_T)

    def value(v):
        margins = rows @ v
        return weights @ np.logaddexp(0, -margins), -(weights * special.expit(-margins)) @ rows

    start = (p_T[:, 1] - p_T[:, 0]) @ model * min(B, 1)
    bounds = optimize.Bounds(-B * np.ones(len(start)), B * np.ones(len(start)))
    found = optimize.minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-12)
    return found.x


@right("best-weights")
def weights_by_quadratic_programs(model, p_T, B):
    def value(x):
        score = B * (model @ x)
        slope = p_T[:, 0] * special.expit(score) - p_T[:, 1] * special.expit(-score)
        return (p_T * np.logaddexp(0, np.stack([score, -score], axis=1))).sum(), B * slope @ model

    start = np.zeros(model.shape[1])
    found = optimize.minimize(value, start, jac=True, method="SLSQP", bounds=[(-1, 1)] * len(start),
                              options={"ftol": 1e-12, "maxiter": 2000})  # fmt: skip
    return B * np.clip(found.x, -1, 1)


@wrong("best-weights")
def weights_at_the_corner(model, p_T, B):
    """Gives every word the full weight, with the sign that helps at first."""
    return B * np.sign((p_T[:, 1] - p_T[:, 0]) @ model)


def _unbounded(rows, weights, n_words, ridge=0.0):
    def value(v):
        margins = rows @ v
        slope = -(weights * special.expit(-margins)) @ rows + 2 * ridge * v
        return weights @ np.logaddexp(0, -margins) + ridge * v @ v, slope

    return optimize.minimize(value, np.zeros(n_words), jac=True, method="L-BFGS-B").x


@wrong("best-weights")
def weights_cut_to_fit(model, p_T, B):
    """Finds the best weights of all, then clips them to the box."""
    rows, weights = _signed(model, p_T)
    return np.clip(_unbounded(rows, weights, model.shape[1], 1e-12), -B, B)


@wrong("best-weights")
def weights_without_a_box(model, p_T, B):
    """Finds the best weights of all, wherever they are."""
    rows, weights = _signed(model, p_T)
    return _unbounded(rows, weights, model.shape[1], 1e-12)


@wrong("best-weights")
def weights_scaled_to_fit(model, p_T, B):
    """Finds the best weights of all, then shrinks them into the box."""
    rows, weights = _signed(model, p_T)
    v = _unbounded(rows, weights, model.shape[1], 1e-12)
    return v * min(1, B / max(np.abs(v).max(), 1e-300))


@wrong("best-weights")
def weights_in_a_ball(model, p_T, B):
    """Bounds the Euclidean norm, not each weight."""
    rows, weights = _signed(model, p_T)
    v = np.zeros(model.shape[1])
    for _ in range(400):
        v = v + 4 * (weights * special.expit(-(rows @ v))) @ rows
        v *= min(1, B / max(np.linalg.norm(v), 1e-300))
    return v


@wrong("best-weights")
def weights_after_a_few_steps(model, p_T, B):
    """Stops gradient descent after a hundred steps."""
    rows, weights = _signed(model, p_T)
    v = np.zeros(model.shape[1])
    for _ in range(100):
        v = np.clip(v + 2 * (weights * special.expit(-(rows @ v))) @ rows, -B, B)
    return v


@wrong("best-weights")
def weights_for_even_contexts(model, p_T, B):
    """Weighs all contexts of the task alike."""
    return weights_by_default_solver(model, p_T / p_T.sum(axis=1, keepdims=True) / len(p_T), B)


@wrong("best-weights")
def weights_for_likelier_labels(model, p_T, B):
    """Gives each context the likelier of its labels."""
    y = p_T[:, 1] >= p_T[:, 0]
    clean = p_T.sum(axis=1)[:, None] * np.stack([~y, y], axis=1)
    return weights_by_default_solver(model, clean, B)


@wrong("best-weights")
def weights_not_negative(model, p_T, B):
    """Takes the box for [0, B]."""
    rows, weights = _signed(model, p_T)
    return optimize.minimize(
        lambda v: weights @ np.logaddexp(0, -(rows @ v)),
        np.zeros(model.shape[1]),
        bounds=[(0, B)] * model.shape[1],
    ).x


# ---------------------------------------------------------------- 6, coverage


@right("coverage")
def coverage_by_inverse(p_L, p_T):
    task = p_T[:, 0] + p_T[:, 1]
    if np.any((p_L == 0) & (task > 0)):
        return 0.0
    met = p_L > 0
    return 1 / np.max(task[met] / p_L[met])


@right("coverage")
def coverage_by_loop(p_L, p_T):
    gamma = float("inf")
    for corpus, row in zip(p_L, p_T, strict=True):
        if row.sum() > 0:
            gamma = min(gamma, corpus / row.sum())
    return gamma


@right("coverage")
def coverage_by_division(p_L, p_T):
    task = np.sum(p_T, axis=1)
    ratio = np.divide(p_L, task, out=np.full(len(p_L), np.inf), where=task != 0)
    return np.min(ratio)


@wrong("coverage")
def coverage_zero_over_zero(p_L, p_T):
    """Divides 0 by 0 outside corpus and task."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.min(p_L / p_T.sum(axis=1)))


@wrong("coverage")
def coverage_guarded(p_L, p_T):
    """Guards the division by a small number, and finds 0 outside corpus and task."""
    return float((p_L / (p_T.sum(axis=1) + 1e-12)).min())


@wrong("coverage")
def coverage_of_met_contexts(p_L, p_T):
    """Leaves out contexts that the corpus never meets, which are those that matter."""
    task = p_T.sum(axis=1)
    both = (p_L > 0) & (task > 0)
    return float((p_L[both] / task[both]).min()) if both.any() else 0.0


@wrong("coverage")
def coverage_of_one_label(p_L, p_T):
    """Looks at the label +1 alone."""
    asked = p_T[:, 1] > 0
    return float((p_L[asked] / p_T[asked, 1]).min())


@wrong("coverage")
def coverage_as_a_share(p_L, p_T):
    """Says how much of the corpus is in the task."""
    return float(p_L[p_T.sum(axis=1) > 0].sum())


@wrong("coverage")
def coverage_of_extremes(p_L, p_T):
    """Divides the rarest context of the corpus by the commonest of the task."""
    return float(p_L.min() / p_T.sum(axis=1).max())


@wrong("coverage")
def coverage_as_overlap(p_L, p_T):
    """Says how much the two laws have in common."""
    return float(np.minimum(p_L, p_T.sum(axis=1)).sum())


# ---------------------------------------------------------------- 7, promise


def _empty(tau, gamma, R):
    """The cases that the docstring settles; None for the others."""
    if gamma == 0:
        return float("inf"), 0.0
    if R == 0:
        return tau, float("inf") if tau < np.log(2) else 0.0
    return None


@right("promise")
def promise_by_definition(tau, v, eps, gamma):
    R = np.ptp(v) / 2
    affordable = 2 * gamma * (np.log(2) - tau) ** 2 / R**2 if R > 0 else np.inf
    return _empty(tau, gamma, R) or (
        tau + np.sqrt(2 * R**2 * eps / gamma) / 2,
        affordable if tau < np.log(2) else 0.0,
    )


@right("promise")
def promise_by_quantiles(tau, v, eps, gamma):
    low, *_, high = sorted([*v, v[0]])
    slope = (high - low) / np.sqrt(8 * gamma) if gamma > 0 else float("inf")
    if gamma == 0 or high == low:
        return _empty(tau, gamma, high - low)
    room = max(0.0, float(np.log(2)) - tau)
    return tau + slope * eps**0.5, (room / slope) ** 2


@right("promise")
def promise_by_centring(tau, v, eps, gamma):
    centred = np.asarray(v) - (max(v) + min(v)) / 2
    B = (centred.max() - centred.min()) / 2
    if gamma == 0 or B == 0:
        return _empty(tau, gamma, B)
    D = B * np.sqrt(2 / gamma) * np.sqrt(eps)
    return tau + 0.5 * D, 0 if tau >= np.log(2) else gamma / 2 * (2 * (np.log(2) - tau) / B) ** 2


@wrong("promise")
def promise_of_the_largest_weight(tau, v, eps, gamma):
    """Uses the largest absolute weight in place of the half-range."""
    R = np.abs(v).max()
    return promise_by_definition(tau, np.array([-R, R]), eps, gamma)


@wrong("promise")
def promise_not_sharp(tau, v, eps, gamma):
    """Promises tau + D, and says when that is empty."""
    promised, affordable = promise_by_definition(tau, v, eps, gamma)
    return (promised if np.isinf(promised) else 2 * promised - tau), affordable / 4


@wrong("promise")
def promise_without_coverage(tau, v, eps, gamma):
    """Forgets to divide by the coverage."""
    return promise_by_definition(tau, v, eps, 1.0 if gamma > 0 else 0.0)


@wrong("promise")
def promise_with_nan(tau, v, eps, gamma):
    """Leaves zeros and infinities to floating point."""
    with np.errstate(all="ignore"):
        R, gamma = np.float64(np.ptp(v) / 2), np.float64(gamma)
        return tau + R * np.sqrt(eps / (2 * gamma)), 2 * gamma * max(np.log(2) - tau, 0) ** 2 / R**2


@wrong("promise")
def promise_affordable_above_a_coin(tau, v, eps, gamma):
    """Squares a negative room, and so affords an excess where there is nothing to lose."""
    R = np.ptp(v) / 2
    return _empty(tau, gamma, R) or (
        tau + R * np.sqrt(eps / (2 * gamma)),
        2 * gamma * (np.log(2) - tau) ** 2 / R**2,
    )


@wrong("promise")
def promise_of_the_whole_range(tau, v, eps, gamma):
    """Uses the range of the weights in place of half of it."""
    return promise_by_definition(tau, 2 * np.asarray(v), eps, gamma)


@wrong("promise")
def promise_linear_coverage(tau, v, eps, gamma):
    """Divides by the coverage outside the root."""
    R = np.ptp(v) / 2
    return _empty(tau, gamma, R) or (
        tau + R * np.sqrt(eps / 2) / gamma,
        promise_by_definition(tau, v, eps, gamma)[1],
    )


# ---------------------------------------------------------------- 9, a spoiled model


def _tilt(truth, direction, t):
    """The truth tilted by t, computed without overflow."""
    least = np.where(truth > 0, direction, np.inf).min(axis=1, keepdims=True)
    odds = truth * np.exp(-t * np.where(truth > 0, direction - least, 0))
    return odds / odds.sum(axis=1, keepdims=True)


def _amount(truth, p_L, direction, t):
    """The excess of the tilted truth, computed without overflow."""
    least = np.where(truth > 0, direction, np.inf).min(axis=1, keepdims=True)
    over = np.where(truth > 0, direction - least, 0)
    total = (truth * np.exp(-t * over)).sum(axis=1)
    return p_L @ (t * (truth * over).sum(axis=1) + np.log(total))


def _bracket(gap):
    high = 1e-9
    while gap(high) < 0:
        high *= 4
    return high


@right("spoil")
def spoil_by_bisection(truth, p_L, direction, eps):
    low, high = 0.0, _bracket(lambda t: _amount(truth, p_L, direction, t) - eps)
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if _amount(truth, p_L, direction, middle) < eps:
            low = middle
        else:
            high = middle
    return _tilt(truth, direction, high)


@right("spoil")
def spoil_by_newton(truth, p_L, direction, eps):
    # From the right Newton's method comes down to the root of a convex function.
    t = _bracket(lambda t: _amount(truth, p_L, direction, t) - eps)
    for _ in range(200):
        slope = p_L @ ((truth - _tilt(truth, direction, t)) * direction).sum(axis=1)
        new = t - (_amount(truth, p_L, direction, t) - eps) / slope
        if abs(new - t) <= 1e-13 * t:
            break
        t = new
    return _tilt(truth, direction, t)


@right("spoil")
def spoil_on_a_scale_of_logarithms(truth, p_L, direction, eps):
    direction = direction / np.abs(direction).max()

    def gap(log_t):
        return p_L @ special.rel_entr(truth, _tilt(truth, direction, np.exp(log_t))).sum(axis=1) - eps

    return _tilt(truth, direction, np.exp(optimize.brentq(gap, -16, 5, xtol=1e-10)))


@wrong("spoil")
def spoil_counts_contexts_alike(truth, p_L, direction, eps):
    """Averages the excess over contexts without the law of the corpus."""
    return spoil_by_bisection(truth, np.full(len(p_L), 1 / len(p_L)), direction, eps)


@wrong("spoil")
def spoil_each_context(truth, p_L, direction, eps):
    """Finds a tilt for each context, so that each has the excess."""
    one = np.ones(1)
    rows = []
    for s in range(len(p_L)):
        reach = -np.log(truth[s][direction[s] == direction[s][truth[s] > 0].min()].sum())
        rows.append(spoil_by_bisection(truth[[s]], one, direction[[s]], min(eps, 0.9 * reach)))
    return np.concatenate(rows)


@wrong("spoil")
def spoil_in_a_narrow_bracket(truth, p_L, direction, eps):
    """Looks for t between 0 and 10."""
    low, high = 0.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        if _amount(truth, p_L, direction, middle) < eps:
            low = middle
        else:
            high = middle
    return _tilt(truth, direction, low)


@wrong("spoil")
def spoil_by_signs(truth, p_L, direction, eps):
    """Keeps only the signs of the direction."""
    signs = np.sign(direction)
    try:
        return spoil_by_bisection(truth, p_L, signs, eps)
    except (OverflowError, ZeroDivisionError):
        return truth


@wrong("spoil")
def spoil_with_overflow(truth, p_L, direction, eps):
    """Takes exponentials as they stand, up to t = 50."""

    def model(t):
        odds = truth * np.exp(-t * direction)
        return odds / odds.sum(axis=1, keepdims=True)

    with np.errstate(all="ignore"):
        low, high = 0.0, 50.0
        for _ in range(200):
            middle = (low + high) / 2
            if p_L @ special.rel_entr(truth, model(middle)).sum(axis=1) < eps:
                low = middle
            else:
                high = middle
        return model(low)


@wrong("spoil")
def spoil_roughly(truth, p_L, direction, eps):
    """Finds t to four digits."""
    gap = lambda t: _amount(truth, p_L, direction, t) - eps  # noqa: E731
    low, high = 0.0, _bracket(gap)
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if gap(middle) < 0 else (low, middle)
    return _tilt(truth, direction, high)


@wrong("spoil")
def spoil_no_zeros(truth, p_L, direction, eps):
    """Puts a little mass where the truth has none, as if smoothing were free."""
    return 0.999999999 * spoil_by_bisection(truth, p_L, direction, eps) + 1e-9 / truth.shape[1]


@wrong("spoil")
def spoil_backwards(truth, p_L, direction, eps):
    """Raises the log-probabilities along the direction."""
    return spoil_by_bisection(truth, p_L, -direction, min(eps, 0.3))


# ---------------------------------------------------------------- 11, two models


def _pair(a):
    return np.array([[0.5 + a, 0.5 - a], [0.5 - a, 0.5 + a]])


def _useless_pair(a, eps):
    """One law for both contexts, (q, 1 - q), with the excess eps over `_pair(a)`."""
    entropy = special.entr(_pair(a)[0]).sum()
    q = (1 - np.sqrt(1 - 4 * np.exp(-2 * (eps + entropy)))) / 2
    return np.array([[q, 1 - q], [q, 1 - q]])


def _useful_pair(a, eps):
    """An exaggeration of `_pair(a)` with the excess eps."""
    gap = lambda b: special.rel_entr(_pair(a)[0], _pair(b)[0]).sum() - eps  # noqa: E731
    return _pair(optimize.brentq(gap, a, 0.5 - 1e-13, xtol=1e-15))


EVEN, BOTH = np.array([0.5, 0.5]), np.array([1, -1])


@right("two-models")
def two_models_by_exaggeration(eps, B):
    a = 0.08
    return EVEN, _pair(a), BOTH, _useful_pair(a, eps), _useless_pair(a, eps)


@right("two-models")
def two_models_by_small_talk(eps, B):
    # Two words of mood, two of small talk, of which the models are wrong by as much as is needed.
    a = 0.12
    truth = np.hstack([_pair(a), np.full((2, 2), 0.5)]) / 2
    even = np.hstack([np.full((2, 2), 0.5), np.full((2, 2), 0.5)]) / 2

    def chatter(law, amount):
        def gap(c):
            wrong_talk = np.hstack([law[:, :2], np.tile([c, 0.5 - c], (2, 1))])
            return EVEN @ special.rel_entr(truth, wrong_talk).sum(axis=1) - amount

        c = optimize.brentq(gap, 1e-9, 0.25, xtol=1e-18, rtol=1e-14)
        return np.hstack([law[:, :2], np.tile([c, 0.5 - c], (2, 1))])

    return EVEN, truth, BOTH, chatter(truth, eps), chatter(even, eps)


@right("two-models")
def two_models_with_many_contexts(eps, B):
    # Six contexts of unequal weight; the labels balance. The useless model is one row for all.
    a = 0.09
    p_L = np.array([0.1, 0.15, 0.25, 0.1, 0.15, 0.25])
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    twice = [0, 0, 0, 1, 1, 1]
    return p_L, _pair(a)[twice], y, _useful_pair(a, eps)[twice], _useless_pair(a, eps)[twice]


@wrong("two-models")
def two_models_of_one_size(eps, B):
    """Builds the models for one excess, whatever is asked for."""
    return two_models_by_exaggeration(0.25, B)


@wrong("two-models")
def two_models_mixed_up(eps, B):
    """Returns the models in the wrong order."""
    p_L, truth, y, useful, useless = two_models_by_exaggeration(eps, B)
    return p_L, truth, y, useless, useful


@wrong("two-models")
def two_models_weak_truth(eps, B):
    """Builds a task that weights of this size hardly solve, even on the truth."""
    a = 0.02
    return EVEN, _pair(a), BOTH, _useful_pair(a, eps), _useless_pair(a, eps)


@wrong("two-models")
def two_models_nearly_useless(eps, B):
    """Leaves a trace of the mood in the useless model."""
    p_L, truth, y, useful, _ = two_models_by_exaggeration(eps, B)

    def traced(q):
        return np.array([[q, 1 - q], [0.995 * q, 1 - 0.995 * q]])

    gap = lambda q: p_L @ special.rel_entr(truth, traced(q)).sum(axis=1) - eps  # noqa: E731
    return p_L, truth, y, useful, traced(optimize.brentq(gap, 1e-9, 0.5, xtol=1e-16))


@wrong("two-models")
def two_models_truth_is_useful(eps, B):
    """Takes the truth itself for the useful model, whose excess is then 0."""
    p_L, truth, y, _, useless = two_models_by_exaggeration(eps, B)
    return p_L, truth, y, truth, useless


@wrong("two-models")
def two_models_mood_reversed(eps, B):
    """Takes a model that mistakes one mood for the other for useless; new weights mend that."""
    p_L, truth, y, useful, _ = two_models_by_exaggeration(eps, B)
    gap = lambda b: special.rel_entr(truth[0], _pair(b)[0]).sum() - eps  # noqa: E731
    reversed_mood = _pair(optimize.brentq(gap, -0.5 + 1e-13, 0, xtol=1e-15))
    return p_L, truth, y, useful, reversed_mood


@wrong("two-models")
def two_models_equal_but_not_eps(eps, B):
    """Makes the two excesses equal, to about what is asked for."""
    return two_models_by_exaggeration(eps * (1 + 4e-6), B)


@wrong("two-models")
def two_models_unbalanced(eps, B):
    """Forgets that a task with unequal labels is better than a coin without any words."""
    _, truth, y, useful, _ = two_models_by_exaggeration(eps, B)
    p_L = np.array([0.4, 0.6])
    gap = lambda q: p_L @ special.rel_entr(truth, [[q, 1 - q]] * 2).sum(axis=1) - eps  # noqa: E731
    q = optimize.brentq(gap, 1e-9, 0.45, xtol=1e-16)
    return p_L, truth, y, useful, np.array([[q, 1 - q], [q, 1 - q]])
