import pytest

from lmcourse.profiles import PROFILES, choose, profile


@pytest.mark.parametrize("name", PROFILES)
def test_the_variable_decides(monkeypatch, name):
    monkeypatch.setenv("LMCOURSE_PROFILE", name)
    assert profile() == name
    assert choose(smoke="smoke", cpu="cpu", gpu="gpu") == name


def test_cpu_is_the_default(monkeypatch):
    monkeypatch.delenv("LMCOURSE_PROFILE", raising=False)
    assert choose(smoke=1, cpu=2, gpu=3) == 2


def test_a_wrong_name_is_refused_with_advice(monkeypatch):
    monkeypatch.setenv("LMCOURSE_PROFILE", "huge")
    with pytest.raises(ValueError, match="'huge'; set it to one of smoke, cpu, gpu"):
        choose(smoke=1, cpu=2, gpu=3)
