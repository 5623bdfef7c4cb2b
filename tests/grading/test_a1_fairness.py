"""Assignment 1 grades fairly: wrong answers lose points, right ones do not, over twenty seeds."""

from __future__ import annotations

import a1
import a1_bank
import pytest

QUESTIONS = [q["id"] for q in a1.CODE]
ANSWERS = [(q, f) for bank in (a1_bank.RIGHT, a1_bank.WRONG) for q in QUESTIONS for f in bank[q]]


def names(pairs):
    return [f.__name__ for _, f in pairs]


RIGHT = [(q, f) for q in QUESTIONS for f in a1_bank.RIGHT[q]]
WRONG = [(q, f) for q in QUESTIONS for f in a1_bank.WRONG[q]]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_bank_is_large_enough(question):
    assert len(a1_bank.RIGHT[question]) >= 3
    assert len(a1_bank.WRONG[question]) >= 5
    assert all(f.__doc__ for f in a1_bank.WRONG[question]), "each says what is wrong with it"


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_model_solution_gets_all(question):
    answer = a1.functions(a1.notebook().cells)[question]
    assert [a1.faults(question, answer, seed) for seed in a1.SEEDS] == [[] for _ in a1.SEEDS]
    assert all(passed for *_, passed in a1.public_tests(question, answer))


@pytest.mark.parametrize(("question", "answer"), RIGHT, ids=names(RIGHT))
def test_right_answers_get_all(question, answer):
    assert [a1.faults(question, answer, seed) for seed in a1.SEEDS] == [[] for _ in a1.SEEDS]
    assert [message for message, _, passed in a1.public_tests(question, answer) if not passed] == []


@pytest.mark.parametrize(("question", "answer"), WRONG, ids=names(WRONG))
def test_wrong_answers_lose_points(question, answer):
    unnoticed = [seed for seed in a1.SEEDS if not a1.faults(question, answer, seed)]
    assert unnoticed == [], "seeds at which a wrong answer gets all points"


@pytest.mark.parametrize(("question", "answer"), WRONG, ids=names(WRONG))
def test_wrong_answers_are_plausible(question, answer):
    """Right in type and shape, and right on some public case."""
    results = a1.public_tests(question, answer)
    assert [message for message, form, passed in results if form and not passed] == []
    assert any(passed for _, form, passed in results if not form)


def test_the_same_seed_gives_the_same_cases():
    for question in QUESTIONS:
        first = a1.cases.__wrapped__(question, 3)
        again = a1.cases.__wrapped__(question, 3)
        other = a1.cases.__wrapped__(question, 4)
        assert repr(first) == repr(again)
        assert repr(first) != repr(other)
