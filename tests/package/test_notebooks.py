"""Every chapter keeps the rules, and every rule catches a planted defect."""

import copy
from pathlib import Path

import nbformat
import notebook_rules as rules
import pytest

CHAPTERS = sorted((Path(__file__).parents[2] / "chapters").glob("*.ipynb"))


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapters_keep_the_rules(path, rule):
    assert rule(rules.read(path)) == []


def test_there_are_chapters():
    assert CHAPTERS


@pytest.fixture
def good():
    """A notebook that keeps every rule."""
    v4 = nbformat.v4
    return v4.new_notebook(
        metadata={"kernelspec": dict(rules.KERNEL)},
        cells=[
            v4.new_markdown_cell(
                "# Title\n\nOne half of $x + 0.5$ and `0.1`, see [here](a-1.5.html).", id="title"
            ),
            v4.new_code_cell("n = choose(smoke=1, cpu=2, gpu=3)", id="set-up"),
            v4.new_code_cell(
                "figures.show(fig, title=f'It falls by {x:.2f}, or {y:.0%}', alt='A line')", id="falling-line"
            ),
            v4.new_code_cell("assert n > 0", id="closing-assertions"),
        ],
    )


def test_a_good_notebook_passes(good):
    assert [rule.__name__ for rule in rules.RULES if rule(good)] == []


def plant(good, cell, source=None, **fields):
    bad = copy.deepcopy(good)
    if source is not None:
        bad.cells[cell].source = source
    bad.cells[cell].update(fields)
    return bad


@pytest.mark.parametrize(
    ("rule", "cell", "change"),
    [
        (rules.outputs_left_in, 1, {"execution_count": 3}),
        (rules.outputs_left_in, 1, {"outputs": [nbformat.v4.new_output("stream", text="2")]}),
        (rules.foreign_metadata, 1, {"id": "a1b2c3d4"}),
        (rules.foreign_metadata, 1, {"id": "title"}),
        (rules.numbers_typed_in_prose, 0, {"source": "Accuracy rises to 93.5 here."}),
        (rules.numbers_typed_in_prose, 0, {"source": "Accuracy rises to .93 here."}),
        (rules.numbers_typed_in_prose, 0, {"source": "Accuracy rises to 93\\% here."}),
        (rules.numbers_typed_in_prose, 0, {"source": "The error is 3e-4 here."}),
        (rules.numbers_typed_in_prose, 0, {"source": "It took 14 seconds."}),
        (rules.numbers_typed_in_prose, 0, {"source": "It is $0.93$ here."}),
        (rules.numbers_typed_in_prose, 0, {"source": "As $a$ < b it is 0.93, and c > d."}),
        (rules.numbers_typed_in_prose, 0, {"source": "```{note}\nAccuracy rises to 93 %.\n```"}),
        (rules.numbers_typed_in_prose, 0, {"source": "````{prf:remark}\nIt is 0.93.\n````"}),
        (rules.numbers_typed_in_titles, 2, {"source": "figures.show(fig, title='By 0.31', alt='A line')"}),
        (
            rules.numbers_typed_in_titles,
            2,
            {"source": "t = 'By 31 %'\nfigures.show(fig, title=t, alt='A line')"},
        ),
        (rules.numbers_typed_in_titles, 2, {"source": "figures.show(fig, title=f'By {0.31}', alt='A line')"}),
        (rules.unsaid_figures, 2, {"source": "plt.show()"}),
        (rules.unsaid_figures, 2, {"source": "%%time\nplt.show()"}),
        (
            rules.unsaid_figures,
            2,
            {"source": "from lmcourse.figures import show\nshow(fig, title='T', alt='A')"},
        ),
        (rules.unsaid_figures, 2, {"source": "figures.show(fig, title='It falls and falls')"}),
        (rules.maths_macros, 0, {"source": "# Title\n\n$\\newcommand{\\E}{E}$"}),
        (rules.branches_on_the_profile, 1, {"source": "if profile() != 'smoke':\n    n = 1"}),
        (rules.branches_on_the_profile, 1, {"source": "here = profile()\nok = here == 'smoke' or n > 5"}),
        (rules.branches_on_the_profile, 1, {"source": "if gpu_name():\n    n = 5"}),
        (rules.branches_on_the_profile, 1, {"source": "tolerance = choose(smoke=0.1, cpu=0.01, gpu=0.01)"}),
        (rules.branches_on_the_profile, 1, {"source": "strict = choose(smoke=False, cpu=True, gpu=True)"}),
        (rules.branches_on_the_profile, 1, {"source": "repeats = choose(smoke=0, cpu=1, gpu=1)"}),
        (rules.branches_on_the_profile, 1, {"source": "if n > 100:\n    assert n < 200"}),
        (
            rules.branches_on_the_profile,
            1,
            {"source": "try:\n    assert n < 2\nexcept AssertionError:\n    n = 0"},
        ),
        (rules.asserts_nothing, 3, {"source": "print(n)"}),
        (rules.asserts_nothing, 3, {"source": "assert True"}),
        (rules.asserts_nothing, 3, {"source": "assert (n > 0, 'positive')"}),
    ],
)
def test_a_planted_defect_is_caught(good, rule, cell, change):
    bad = plant(good, cell, **change)
    assert [r.__name__ for r in rules.RULES if r(bad)] == [rule.__name__]


def test_a_foreign_kernel_is_caught(good):
    good.metadata.kernelspec = {"name": "conda-env-mine", "display_name": "Mine", "language": "python"}
    assert rules.foreign_metadata(good)
