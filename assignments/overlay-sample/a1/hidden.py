"""Hidden tests of assignment 1: a SAMPLE of a teacher's private overlay.

It is published with the course, so students may read it; replace it before you grade (see the page for
instructors). Each question has a function that draws cases and one that checks an answer. Right answers come
from other methods than the model solution: exact fractions, decimal arithmetic with 50 digits, differences in
place of derivatives, a barrier method in place of a library's optimiser; a construction is checked by its
properties. Every tolerance is argued where it stands, in terms of ``EPS``, twice the unit roundoff ``u``.
"""

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse_grader.hidden import Case, Question, close

Array = NDArray[np.float64]

EPS = float(np.finfo(float).eps)
LOG2 = math.log(2)
DIGITS = 50


# ---------------------------------------------------------------- drawing laws


def laws(rng: np.random.Generator, *shape: int, concentration: float = 1.0, zeros: float = 0.0) -> Array:
    """Draw laws on the last axis; a share of the entries is zero, never all of a law."""
    odds = rng.gamma(concentration, size=shape) + 1e-3
    odds[rng.random(shape) < zeros] = 0
    dead = odds.sum(axis=-1) == 0
    odds[dead, 0] = 1
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def task(rng: np.random.Generator, contexts: Array, noise: float = 0.0) -> Array:
    """Draw a task with a given law of contexts; labels are mixed by up to `noise`, and both occur."""
    labels = rng.permutation(np.arange(len(contexts)) % 2)
    flipped = rng.uniform(noise / 2, noise, len(contexts))
    positive = np.where(labels == 1, 1 - flipped, flipped)
    return np.stack([contexts * (1 - positive), contexts * positive], axis=1)


# ---------------------------------------------------------------- reading answers


def parts(answer: Any, names: list[str]) -> str | None:
    """Say what is wrong with an answer that should be a tuple of so many parts."""
    if not isinstance(answer, tuple | list):
        return f"a tuple of {len(names)} is expected ({', '.join(names)}), not one {type(answer).__name__}"
    if len(answer) != len(names):
        return f"a tuple of {len(names)} is expected ({', '.join(names)}), not of {len(answer)}"
    return None


def numbers(value: Any, what: str) -> tuple[Array, str | None]:
    """Read an array of finite real numbers; or say why it is none."""
    nothing = np.zeros(0)
    try:
        found = np.asarray(value)
    except ValueError:
        return nothing, f"{what} is a ragged list, not an array"
    if found.dtype.kind not in "iuf":
        return nothing, f"{what} does not consist of real numbers"
    found = found.astype(float)
    if not np.isfinite(found).all():
        return nothing, f"{what} has entries that are NaN or infinite"
    return found, None


def table(value: Any, shape: tuple[int, ...], what: str) -> tuple[Array, str | None]:
    """Read an array of laws of a given shape; or say why it is none."""
    found, wrong = numbers(value, what)
    if wrong:
        return found, wrong
    if found.shape != shape:
        return found, f"{what} has shape {found.shape}, expected {shape}"
    if found.size and found.min() < 0:
        return found, f"{what} has negative entries"
    # Summing V <= 40 rounded entries errs by less than 40 EPS: 1e-9 is far above rounding.
    if np.abs(found.sum(axis=-1) - 1).max(initial=0) > 1e-9:
        return found, f"{what} has rows that do not sum to one"
    return found, None


def compare(answer: Any, expected: ArrayLike, *, rtol: float, atol: float, what: str) -> str | None:
    """Compare numbers to rounding; tell a student whose numbers are nearly right that they are."""
    wrong = close(answer, expected, rtol=rtol, atol=atol, what=what)
    if wrong and close(answer, expected, rtol=1e-6, atol=1e-6, what=what) is None:
        return f"{what} is close, but further off than rounding would explain"
    return wrong


# ---------------------------------------------------------------- divergences, in decimal arithmetic


def exact_sums(weights: Array, truth: Array, model: Array) -> tuple[float, float, float]:
    """Entropy of the truth, cross-entropy and divergence, expected under weights, with 50 digits."""
    with localcontext() as context:
        context.prec = DIGITS
        entropy = cross = Decimal(0)
        for weight, p_row, q_row in zip(weights.tolist(), truth.tolist(), model.tolist(), strict=True):
            for p, q in zip(p_row, q_row, strict=True):
                if weight > 0 and p > 0:
                    share = Decimal(weight) * Decimal(p)
                    entropy -= share * Decimal(p).ln()
                    cross = cross - share * Decimal(q).ln() if q > 0 else Decimal("inf")
        return float(entropy), float(cross), float(cross - entropy)


def kl_cases(rng: np.random.Generator) -> list[Case]:
    """Laws with and without zeros, impossible words, tiny probabilities."""
    p = laws(rng, 5, 6)
    q = laws(rng, 5, 6)
    sparse = laws(rng, 5, 6, zeros=0.4)
    sparse[:, 0] += 0.1
    sparse /= sparse.sum(axis=1, keepdims=True)
    both = np.where(sparse > 0, q, 0)
    both /= both.sum(axis=1, keepdims=True)
    impossible = q.copy()
    impossible[[0, 3], rng.integers(6, size=2)] = 0
    impossible /= impossible.sum(axis=1, keepdims=True)
    tiny = laws(rng, 4, 5)
    tiny[:, 1] = 10.0 ** rng.uniform(-300, -200, 4)
    tiny[:, 2] = 10.0 ** rng.uniform(-30, -15, 4)
    tiny /= tiny.sum(axis=1, keepdims=True)
    points = np.eye(4)[rng.integers(4, size=3)]
    unlike = np.roll(points, 1, axis=1)
    zero = "Which terms of the sum are zero, and what does floating point make of 0 times infinity?"
    return [
        Case("random laws", {"p": p, "q": q}, "Which of the two laws weighs the logarithms?", 2),
        Case("one pair of laws on forty words", {"p": laws(rng, 1, 40), "q": laws(rng, 1, 40)}),
        Case("words that never come", {"p": sparse, "q": q}, zero),
        Case("words that never come and are called impossible", {"p": sparse, "q": both}, zero),
        Case(
            "some rows with a word that comes and is called impossible",
            {"p": p, "q": impossible},
            "Look at each row by itself: which are infinite?",
        ),
        Case("very small probabilities in q", {"p": laws(rng, 4, 5), "q": tiny}, "Do not change the laws."),
        Case("very small probabilities in p", {"p": tiny, "q": laws(rng, 4, 5)}),
        Case("sure words, called sure or impossible", {"p": np.vstack([points, points]),
                                                      "q": np.vstack([points, unlike])}, zero),
    ]  # fmt: skip


def kl_check(case: Case, answer: Any) -> str | None:
    """Compare with decimal arithmetic, row by row."""
    p, q = case.arguments["p"], case.arguments["q"]
    one = np.ones(1)
    rows = [exact_sums(one, p[[s]], q[[s]]) for s in range(len(p))]
    # Each term p (log p - log q) is rounded a few times, by at most 2u p (1 + |log p| + |log q|) in all, and
    # adding V terms in any order costs (V - 1) u times their absolute sum. Here EPS = 2u.
    size = max(1 + entropy + cross for entropy, cross, _ in rows if math.isfinite(cross))
    return compare(
        answer,
        [divergence for *_, divergence in rows],
        rtol=0,
        atol=(p.shape[1] + 4) * EPS * size,
        what="the divergence",
    )


def scorecard_cases(rng: np.random.Generator) -> list[Case]:
    """Corpora with contexts that are never met, and models with impossible words."""
    S, V = 6, 5
    p_L = laws(rng, S, concentration=0.5)
    truth, model = laws(rng, S, V), laws(rng, S, V)
    unmet = p_L.copy()
    unmet[[1, 4]] = 0
    unmet /= unmet.sum()
    shut = model.copy()
    shut[[1, 4], 0] = 0
    shut /= shut.sum(axis=1, keepdims=True)
    barred = model.copy()
    barred[2, 1] = 0
    barred /= barred.sum(axis=1, keepdims=True)
    sparse = laws(rng, S, V, zeros=0.4)
    follows = np.where(sparse > 0, model, 0)
    follows /= follows.sum(axis=1, keepdims=True)
    sure = np.eye(V)[rng.integers(V, size=S)]
    return [
        Case("a corpus that prefers some contexts", {"p_L": p_L, "truth": truth, "model": model},
             "Contexts count by their probability; the excess is what the truth does not pay.", 2),
        Case("a model close to the truth",
             {"p_L": p_L, "truth": truth, "model": (truth + 0.02 * model) / 1.02}),
        Case("zeros in the truth and in the model", {"p_L": p_L, "truth": sparse, "model": follows},
             "A word that never comes adds nothing."),
        Case("contexts that are never met, in which the model rules out words that would come",
             {"p_L": unmet, "truth": truth, "model": shut}, "What does a context of probability 0 add?"),
        Case("a word that comes in the corpus and is impossible under the model",
             {"p_L": p_L, "truth": truth, "model": barred}, "Both numbers are told by the docstring."),
        Case("a truth that is always sure", {"p_L": p_L, "truth": sure, "model": model}),
    ]  # fmt: skip


def scorecard_check(case: Case, answer: Any) -> str | None:
    """Compare with decimal arithmetic."""
    names = ["cross_entropy", "excess"]
    wrong = parts(answer, names)
    if wrong:
        return wrong
    p_L, truth, model = (case.arguments[name] for name in ("p_L", "truth", "model"))
    entropy, cross, excess = exact_sums(p_L, truth, model)
    # As in kl_check, with S more terms to add. An excess computed as a difference of two sums has the
    # rounding of both: hence their sizes, not that of the excess.
    atol = (sum(truth.shape) + 6) * EPS * (1 + entropy + (cross if math.isfinite(cross) else 0))
    for found, expected, name in zip(answer, (cross, excess), names, strict=True):
        wrong = wrong or compare(found, expected, rtol=0, atol=atol, what=name)
    return wrong


# ---------------------------------------------------------------- counting, in exact fractions


def next_word_cases(rng: np.random.Generator) -> list[Case]:
    """Contexts that overlap, end the text, never came, or are empty."""
    text = rng.integers(3, size=60)
    pair = text[20:22]
    # After word 2 always comes word 0; the pair (1, 2) never comes, and word 4 is in no text.
    blocks = [[2, 0], [1, 0], [1, 3], [3, 0]]
    order = np.concatenate([np.arange(4), rng.integers(4, size=12)])
    steady = np.concatenate([[0], *(blocks[b] + [0] for b in rng.permutation(order))])
    last = np.array([*rng.integers(3, size=20), 3])
    farthest = "Which word of the context is farthest from the one to be predicted?"
    ends = "A context at the end of the text is followed by nothing."

    def case(label: str, text: Any, context: Any, n_words: int, alpha: float, hint: str = "",
             weight: float = 1.0) -> Case:  # fmt: skip
        arguments = {"text": np.asarray(text), "context": np.asarray(context, dtype=int)}
        return Case(label, {**arguments, "n_words": n_words, "alpha": alpha}, hint, weight)

    return [
        case("two words of context", text, pair, 4, float(rng.uniform(0.1, 2)), "Do the rows sum to one?", 2),
        case("one word of context, no pseudo-count", text, [1], 5, 0.0),
        case("a word in a row: places overlap", [0, 0, 0, 1, 0, 0, 0, 0, 2], [0, 0], 3, 0.25,
             "Places may overlap: count every one."),
        case("a context that ends the text", [*text, 3, 1, 2], [1, 2], 4, 0.5, ends),
        case("a context that only ends the text, no pseudo-count", last, [3], 4, 0.0, ends),
        case("a context that never came, no pseudo-count", steady, [4, 2], 5, 0.0, farthest),
        case("two known words that never came together", steady, [1, 2], 5, 0.0, farthest),
        case("three words of context, of which one is of use", steady, [4, 1, 2], 5, 0.0, farthest),
        case("a context that never came, with pseudo-counts", steady, [4, 2], 5, float(rng.uniform(0.01, 1)),
             "Is the denominator 0 here?"),
        case("no context, and a vocabulary larger than the text's", text, [], 30, float(rng.uniform(0.1, 1))),
        case("a context longer than the text", text[:3], text[:8], 4, 0.0, "Does anything look past an end?"),
    ]  # fmt: skip


def next_word_check(case: Case, answer: Any) -> str | None:
    """Count with a regular expression that looks ahead, divide as exact fractions."""
    text, context, n_words, alpha = (case.arguments[k] for k in ("text", "context", "n_words", "alpha"))

    def letters(words: Any) -> str:
        return "".join(chr(0x4E00 + int(word)) for word in words)

    expected: list[float] = []
    for start in range(len(context) + 1):
        followers = re.findall(f"(?={letters(context[start:])}(.))", letters(text))
        counts = [followers.count(letters([word])) for word in range(n_words)]
        total = sum(counts) + Fraction(alpha) * n_words
        if total > 0:
            expected = [float((count + Fraction(alpha)) / total) for count in counts]
            break
    # All terms are positive, so at most V + T additions and one division, each with a relative error of u,
    # leave a relative error below (V + T + 2) u; a zero is exact.
    return compare(answer, expected, rtol=(n_words + len(text) + 2) * EPS, atol=0, what="the law")


# ---------------------------------------------------------------- losses, in decimal arithmetic


def exact_loss(model: list[list[Decimal]], p_T: list[list[Decimal]], v: list[Decimal]) -> Decimal:
    """Compute the logistic loss, in the precision of the decimal context."""
    total = Decimal(0)
    for row, (negative, positive) in zip(model, p_T, strict=True):
        score = sum((p * w for p, w in zip(row, v, strict=True)), Decimal(0))
        for weight, margin in ((negative, -score), (positive, score)):
            if weight:
                total += weight * (1 + (-margin).exp()).ln()
    return total


def loss_and_differences(model: Array, p_T: Array, v: Array) -> tuple[float, list[float]]:
    """Compute the loss, and central differences in place of derivatives, which err below 1e-30."""
    with localcontext() as context:
        context.prec = DIGITS
        rows, task_rows = ([[Decimal(x) for x in row] for row in t.tolist()] for t in (model, p_T))
        weights = [Decimal(x) for x in v.tolist()]
        h = Decimal("1e-16")
        slopes = []
        for w in range(len(weights)):
            up, down = list(weights), list(weights)
            up[w] += h
            down[w] -= h
            difference = exact_loss(rows, task_rows, up) - exact_loss(rows, task_rows, down)
            slopes.append(float(difference / (2 * h)))
        return float(exact_loss(rows, task_rows, weights)), slopes


def task_loss_cases(rng: np.random.Generator) -> list[Case]:
    """Mixed labels, contexts outside the task, confident and confidently wrong scores."""

    def case(label: str, S: int, V: int, size: float, hint: str = "", *, noise: float = 0.5,
             zeros: float = 0.0, weight: float = 1.0) -> Case:  # fmt: skip
        contexts = laws(rng, S, zeros=zeros)
        arguments = {"model": laws(rng, S, V), "p_T": task(rng, contexts, noise)}
        return Case(label, {**arguments, "v": size * rng.standard_normal(V)}, hint, weight)

    large = case("scores in the thousands", 5, 4, 1.0, "What is the exponential of a thousand?", noise=0.0)
    large.arguments["v"][:] = 1e4 * np.where(rng.permutation(4) % 2 == 0, 1, -1)
    wrong = Case(
        "a word that is worth ten thousand",
        {"model": np.eye(3), "p_T": np.array([[0.2, 0.1], [0.3, 0.1], [0.1, 0.2]]),
         "v": np.array([1e4, -1e4, float(rng.normal())])},
        "What is the exponential of ten thousand?",
    )  # fmt: skip
    return [
        case("each context has both labels", 5, 4, 2.0, "Each context counts once for each label.", weight=2),
        case("one label a context", 5, 4, 3.0, noise=0.0),
        case("contexts outside the task", 6, 3, 1.0, zeros=0.4),
        case("one word", 4, 1, 1.0, "Check the shape of the gradient."),
        case("one context, six words", 1, 6, 5.0),
        case("all weights zero", 4, 3, 0.0),
        large,
        wrong,
    ]


def task_loss_check(case: Case, answer: Any) -> str | None:
    """Compare loss and gradient with decimal arithmetic."""
    wrong = parts(answer, ["loss", "gradient"])
    if wrong:
        return wrong
    model, p_T, v = (case.arguments[name] for name in ("model", "p_T", "v"))
    loss, slopes = loss_and_differences(model, p_T, v)
    # A score, a sum of V products, errs by at most V u max|v|. The loss is 1-Lipschitz in it, its slope
    # 1/4-Lipschitz; adding up S contexts with weights that sum to one costs S u more of a loss of at most
    # 1 + max|v|, and exp, log and division a few u.
    atol = (sum(model.shape) + 8) * EPS * (1 + np.abs(v).max())
    return compare(answer[0], loss, rtol=0, atol=atol, what="the loss") or compare(
        answer[1], slopes, rtol=0, atol=atol, what="the gradient"
    )


# ---------------------------------------------------------------- best weights, by a barrier method


def loss(model: Array, p_T: Array, v: Array) -> float:
    """Compute the logistic loss; its error, see task_loss_check, is below 1e-12 for |v| <= 60."""
    score = model @ v
    return float(p_T[:, 0] @ np.logaddexp(0, score) + p_T[:, 1] @ np.logaddexp(0, -score))


def lowest_loss(model: Array, p_T: Array, B: float) -> float:
    """Find the lowest loss in the box, at most 1e-6 too high: it is attained by weights in the box.

    Newton's method on ``t loss(v) - sum log(1 - (v/B)^2)``, for growing t. At its minimum the loss is at most
    2V/t above the lowest (Boyd and Vandenberghe, Convex Optimization, section 11.2).
    """
    arrays = [np.ascontiguousarray(x, dtype=float) for x in (model, p_T)]
    return _lowest_loss(arrays[0].tobytes(), arrays[1].tobytes(), len(model), float(B))


@lru_cache(maxsize=4096)
def _lowest_loss(model_bytes: bytes, p_T_bytes: bytes, S: int, B: float) -> float:
    model = np.frombuffer(model_bytes).reshape(S, -1)
    p_T = np.frombuffer(p_T_bytes).reshape(S, 2)
    V = model.shape[1]
    x = np.zeros(V)  # v / B
    if B == 0:
        return loss(model, p_T, x)
    rows = B * model
    mass = p_T.sum(axis=1)

    def value(x: Array, t: float) -> float:
        return t * loss(rows, p_T, x) - float(np.log1p(-(x**2)).sum())

    t = 1.0
    while t < 4e6 * V:
        t *= 8
        for _ in range(60):
            positive = 0.5 * (1 + np.tanh(rows @ x / 2))  # the probability that the classifier gives to +1
            slope = mass * positive - p_T[:, 1]
            gradient = t * slope @ rows + 2 * x / (1 - x**2)
            curvature = (mass * positive * (1 - positive))[:, None] * rows
            hessian = t * rows.T @ curvature + np.diag(2 * (1 + x**2) / (1 - x**2) ** 2)
            step = -np.linalg.solve(hessian, gradient)
            decrement = -gradient @ step
            if decrement < 1e-4:
                break
            now = value(x, t)
            for size in 0.5 ** np.arange(40):
                trial = x + size * step
                if np.abs(trial).max() < 1 and value(trial, t) <= now - size * decrement / 4:
                    x = trial
                    break
            else:
                break  # as good as rounding lets it be
    return loss(model, p_T, B * x)


def best_weights_cases(rng: np.random.Generator) -> list[Case]:
    """Boxes of all sizes; labels certain and mixed; tasks that prefer some contexts."""

    def case(label: str, S: int, V: int, B: float, noise: float, hint: str = "", *,
             concentration: float = 1.0, uneven: float = 1.0, weight: float = 1.0) -> Case:  # fmt: skip
        p_T = task(rng, laws(rng, S, concentration=uneven), noise)
        return Case(label, {"model": laws(rng, S, V, concentration=concentration), "p_T": p_T, "B": B},
                    hint, weight)  # fmt: skip

    mixed = case("a sure word for each context, mixed labels", 5, 5, 1.5, 0.6, "", uneven=0.5)
    mixed.arguments["model"][:] = np.eye(5)
    corner = "Are your weights the best in the box, or the best of all, cut to fit?"
    return [
        case("mixed labels, a box of middling size", 12, 6, float(rng.uniform(3, 6)), 0.8, corner, weight=2),
        case("mixed labels, few words", 10, 3, float(rng.uniform(2, 4)), 0.6, corner, concentration=0.3),
        case("labels that are certain", 8, 10, float(rng.uniform(5, 10)), 0.0),
        case("a large box", 12, 5, 50.0, 0.5, "Did the solver converge, or stop?", concentration=0.5),
        case("forty contexts, thirty words", 40, 30, float(rng.uniform(8, 20)), 0.4,
             "Did the solver converge, or stop?"),
        case("a task that prefers some contexts", 10, 4, float(rng.uniform(4, 8)), 0.7,
             "Each context and label counts by its probability under the task.", uneven=0.3),
        case("a box that is a point", 4, 3, 0.0, 0.3),
        mixed,
    ]  # fmt: skip


def best_weights_check(case: Case, answer: Any) -> str | None:
    """Accept any weights in the box that are good enough."""
    model, p_T, B = (case.arguments[name] for name in ("model", "p_T", "B"))
    found, wrong = numbers(answer, "the array of weights")
    if wrong:
        return wrong
    if found.shape != (model.shape[1],):
        return f"the array of weights has shape {found.shape}, expected {(model.shape[1],)}"
    if np.abs(found).max() > B * (1 + 1e-9):
        return "a weight is outside the box"
    # The docstring allows 1e-4; the reference is itself attained in the box, so it is never too low by
    # more than the rounding of a loss, 1e-12.
    if loss(model, p_T, found) > lowest_loss(model, p_T, B) + 1e-4 + 1e-12:
        return "other weights in the box have a lower loss, by more than is allowed"
    return None


# ---------------------------------------------------------------- coverage and the promise


def coverage_cases(rng: np.random.Generator) -> list[Case]:
    """Tasks inside, outside and astride the corpus."""
    S = 7
    p_L = laws(rng, S, concentration=0.7)
    inside = laws(rng, S)
    inside[:3] = 0
    inside /= inside.sum()
    holes = p_L.copy()
    holes[[0, 2]] = 0
    holes /= holes.sum()
    astride = inside.copy()
    astride[0] = 0.1
    astride /= astride.sum()
    thin = p_L.copy()
    thin[5] *= 1e-7
    thin /= thin.sum()
    zero = "Which contexts may be left out, and which not?"
    return [
        Case("every context in corpus and task", {"p_L": p_L, "p_T": task(rng, laws(rng, S), 0.6)},
             "Both labels of a context count.", 2),
        Case("a task that is part of the corpus", {"p_L": p_L, "p_T": task(rng, inside, 0.6)}, zero),
        Case("contexts in neither corpus nor task", {"p_L": holes, "p_T": task(rng, inside, 0.6)}, zero),
        Case("a context of the task that the corpus never meets", {"p_L": holes,
             "p_T": task(rng, astride, 0.6)}, zero),
        Case("the task's contexts are those of the corpus", {"p_L": p_L, "p_T": task(rng, p_L, 0.6)}),
        Case("a context that the corpus hardly meets", {"p_L": thin, "p_T": task(rng, inside, 0.6)}),
    ]  # fmt: skip


def coverage_check(case: Case, answer: Any) -> str | None:
    """Compare with exact fractions."""
    p_L, p_T = case.arguments["p_L"], case.arguments["p_T"]
    shares = [
        Fraction(corpus) / (Fraction(negative) + Fraction(positive))
        for corpus, (negative, positive) in zip(p_L.tolist(), p_T.tolist(), strict=True)
        if negative + positive > 0
    ]
    # One addition and one division, or two: a relative error of a few u.
    return compare(answer, float(min(shares)), rtol=4 * EPS, atol=0, what="the coverage")


def promise_cases(rng: np.random.Generator) -> list[Case]:
    """Ordinary numbers, and every zero and infinity of the docstring."""
    tau, eps, gamma = float(rng.uniform(0, 0.6)), float(rng.uniform(0.01, 0.5)), float(rng.uniform(0.1, 1))
    v = rng.uniform(-5, 5, 6)
    flat = np.full(4, float(rng.normal()))
    read = "The docstring says what the answer is here."

    def case(label: str, hint: str = "", weight: float = 1.0, **changed: Any) -> Case:
        return Case(label, {"tau": tau, "v": v, "eps": eps, "gamma": gamma, **changed}, hint, weight)

    return [
        case("ordinary numbers", "Which half-range, and which half of D?", 3),
        case("weights that are all large and nearly equal", "Only differences of weights count.", 2,
             v=50 + rng.uniform(-1, 1, 5)),
        case("low coverage", weight=2, gamma=float(rng.uniform(1e-4, 1e-2)), tau=float(rng.uniform(0, 0.1))),
        case("a perfect model", eps=0.0),
        case("a loss above that of a coin", read, tau=float(rng.uniform(0.7, 2))),
        case("an infinite excess", read, eps=float("inf")),
        case("no coverage", read, gamma=0.0),
        case("no coverage, a perfect model, equal weights", read, gamma=0.0, eps=0.0, v=flat),
        case("equal weights and an infinite excess", read, v=flat, eps=float("inf")),
        case("equal weights, a loss above that of a coin", read, v=flat, tau=float(rng.uniform(0.7, 2))),
    ]  # fmt: skip


def promise_check(case: Case, answer: Any) -> str | None:
    """Compare with decimal arithmetic."""
    names = ["promised", "affordable"]
    wrong = parts(answer, names)
    if wrong:
        return wrong
    tau, v, eps, gamma = (case.arguments[name] for name in ("tau", "v", "eps", "gamma"))
    spread = float(v.max()) > float(v.min())
    with localcontext() as context:
        context.prec = DIGITS
        loss_here, room = Decimal(tau), Decimal(2).ln() - Decimal(tau)
        half_range = (Decimal(float(v.max())) - Decimal(float(v.min()))) / 2
        if gamma == 0:
            expected = math.inf, 0.0
        elif not spread:
            expected = tau, math.inf if room > 0 else 0.0
        else:
            deviation = (2 * half_range**2 * Decimal(eps) / Decimal(gamma)).sqrt()
            largest = 2 * Decimal(gamma) * (max(room, Decimal(0)) / half_range) ** 2
            expected = float(loss_here + deviation / 2), float(largest)
        margin = float(room)
    # Fewer than ten roundings, of u each. In log 2 - tau the rounding of log 2 is absolute, u, and so
    # relative to what is left; it is squared.
    rtol = 5 * EPS, 5 * EPS + 2 * EPS / max(margin, 1e-3)
    for found, number, tolerance, name in zip(answer, expected, rtol, names, strict=True):
        wrong = wrong or compare(found, number, rtol=tolerance, atol=0, what=name)
    return wrong


# ---------------------------------------------------------------- a spoiled model


def excess(p_L: Array, truth: Array, model: Array) -> float:
    """Compute the excess of a model, adding without rounding errors that grow."""
    met = (p_L[:, None] * truth) > 0
    with np.errstate(divide="ignore"):
        terms = (p_L[:, None] * truth)[met] * np.log(truth[met] / model[met])
    return math.fsum(terms)


def spoil_cases(rng: np.random.Generator) -> list[Case]:
    """Directions of all sizes, small and large excesses, truths with zeros, corpora with gaps."""

    def case(label: str, scale: float, strength: float, hint: str = "", *, S: int = 5, V: int = 6,
             zeros: float = 0.0, unmet: int = 0, weight: float = 1.0) -> Case:  # fmt: skip
        truth = laws(rng, S, V, zeros=zeros)
        p_L = laws(rng, S, concentration=0.5)
        p_L[:unmet] = 0
        p_L /= p_L.sum()
        direction = scale * rng.standard_normal((S, V))
        # An excess that some tilt reaches: that of one.
        tilted = truth * np.exp(-strength / scale * direction)
        tilted /= tilted.sum(axis=1, keepdims=True)
        eps = excess(p_L, truth, tilted)
        return Case(label, {"truth": truth, "p_L": p_L, "direction": direction, "eps": eps}, hint, weight)

    bracket = "Between which t do you look, and does anything overflow there?"
    return [
        case("several contexts", 1.0, float(rng.uniform(0.5, 1.5)), "One t for all contexts.", weight=2),
        case("one context, ten words", 1.0, float(rng.uniform(0.5, 2)), S=1, V=10),
        case("a large excess", 1.0, float(rng.uniform(4, 6)), bracket),
        case("a small excess", 1.0, float(rng.uniform(0.01, 0.02)), "How precise is the excess you reach?"),
        case("zeros in the truth", 1.0, float(rng.uniform(0.5, 2)), "Zeros stay.", zeros=0.4, V=8),
        case("contexts that the corpus never meets", 1.0, float(rng.uniform(0.5, 2)),
             "These are tilted too, but do not count in the excess.", unmet=2),
        case("a small direction", 1e-3, float(rng.uniform(1, 2)), bracket),
        case("a large direction", 1e3, float(rng.uniform(1, 2)), bracket),
    ]  # fmt: skip


def spoil_check(case: Case, answer: Any) -> str | None:
    """Accept any model that is the truth tilted along the direction and has the excess."""
    truth, p_L, direction, eps = (case.arguments[k] for k in ("truth", "p_L", "direction", "eps"))
    model, wrong = table(answer, truth.shape, "the model")
    if wrong:
        return wrong
    if not np.array_equal(model > 0, truth > 0):
        return "the model is not zero exactly where the truth is"
    # Log-ratios of a tilted model, less their mean over the words of a context, are -t times the direction,
    # less its mean, with one t.
    support = truth > 0
    words = support.sum(axis=1, keepdims=True)
    change = np.log(np.where(support, model, 1)) - np.log(np.where(support, truth, 1))
    change = np.where(support, change - change.sum(axis=1, keepdims=True) / words, 0)
    along = np.where(support, direction, 0)
    along = np.where(support, along - along.sum(axis=1, keepdims=True) / words, 0)
    t = -float((change * along).sum() / (along**2).sum())
    # Rounding changes a log-probability by a few u (1 + t |d|), below 1e-13 here, as t |d| < 50. A table
    # tilted with another t in some context, or not at all, is off by more than 1e-3.
    if np.abs(change + t * along).max() > 1e-9 * (1 + abs(t) * np.abs(along).max()):
        return "the model is not the truth tilted along the direction, with one t for all contexts"
    if t <= 0:
        return "the model is tilted the wrong way: t is not positive"
    # The docstring allows 1e-6. Rounding moves an excess by a few times 1e-15, which is less than a
    # thousandth of that, as eps is at least 1e-5 in these cases.
    if abs(excess(p_L, truth, model) - eps) > 1.001e-6 * eps:
        return "the excess of the model is not eps to the precision that is asked for"
    return None


# ---------------------------------------------------------------- two models, by their properties


def two_models_cases(rng: np.random.Generator) -> list[Case]:
    """Excesses from one end of the range to the other, small and large boxes."""

    def case(label: str, eps: float, B: float) -> Case:
        return Case(label, {"eps": eps, "B": B}, "Evaluate what you built with your own functions.")

    return [
        case("a small excess, a small box", float(rng.uniform(0.03, 0.05)), 20.0),
        case("a small excess, a large box", float(rng.uniform(0.05, 0.1)), 60.0),
        case("a middling excess", float(rng.uniform(0.2, 0.5)), float(rng.uniform(20, 60))),
        case("about the entropy of a coin", float(rng.uniform(0.65, 0.75)), float(rng.uniform(20, 60))),
        case("a large excess", float(rng.uniform(1.5, 2.0)), float(rng.uniform(20, 60))),
    ]


def two_models_check(case: Case, answer: Any) -> str | None:
    """Test every property that the docstring asks for."""
    eps, B = case.arguments["eps"], case.arguments["B"]
    names = ["p_L", "truth", "y", "useful", "useless"]
    wrong = parts(answer, names)
    if wrong:
        return wrong
    shape = numbers(answer[1], "truth")[0].shape
    if len(shape) != 2 or not (2 <= shape[0] <= 40 and 2 <= shape[1] <= 30):
        return "truth is not a table of 2 to 40 contexts and 2 to 30 words"
    p_L, wrong = table(answer[0], shape[:1], "p_L")
    if wrong:
        return wrong
    y, wrong = numbers(answer[2], "y")
    if wrong or y.shape != shape[:1] or not np.all(np.abs(y) == 1):
        return wrong or "y does not have one label, -1 or +1, for each context"
    found = {}
    for name, value in zip(("truth", "useful", "useless"), (answer[1], *answer[3:]), strict=True):
        found[name], wrong = table(value, shape, name)
        if wrong:
            return wrong
    for name, law in {"p_L": p_L, **found}.items():
        if law.min() <= 0:
            return f"{name} has entries that are not positive"
    for name in ("useful", "useless"):
        *_, amount = exact_sums(p_L, found["truth"], found[name])
        # The docstring allows 1e-6. Rounding moves an excess by a few times 1e-15, far below a thousandth
        # of that, as eps is at least 0.03.
        if abs(amount - eps) > 1.001e-6 * eps:
            return f"the excess of {name} is not eps to the precision that is asked for"
    p_T = np.stack([p_L * (y < 0), p_L * (y > 0)], axis=1)
    # The lowest loss found is attained in the box, and at most 1e-6 above the lowest: so whoever keeps to
    # the docstring passes.
    for name in ("truth", "useful"):
        if lowest_loss(found[name], p_T, B) > 0.1 + 1e-6:
            return f"no weights in the box have a loss of at most 0.1 on {name}"
    if lowest_loss(found["useless"], p_T, B) < LOG2 - 1e-6 - 1e-12:
        return "some weights in the box do better than a coin on useless"
    return None


QUESTIONS = {
    "kl-divergence": Question(kl_cases, kl_check, "an array of shape (S,)"),
    "scorecard": Question(scorecard_cases, scorecard_check, "a tuple of two numbers"),
    "next-word-law": Question(next_word_cases, next_word_check, "an array of shape (V,)"),
    "task-loss": Question(task_loss_cases, task_loss_check, "a tuple: a number and an array of shape (V,)"),
    "best-weights": Question(best_weights_cases, best_weights_check, "an array of shape (V,)"),
    "coverage": Question(coverage_cases, coverage_check, "a number"),
    "promise": Question(promise_cases, promise_check, "a tuple of two numbers"),
    "spoil": Question(spoil_cases, spoil_check, "an array of shape (S, V)"),
    "two-models": Question(two_models_cases, two_models_check, "a tuple of five arrays"),
}
