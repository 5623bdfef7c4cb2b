import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lmcourse.hmm import random_hmm

sys.path.insert(0, str(Path(__file__).parent))  # for toy_cells, which other processes import too


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def hmm():
    return random_hmm(
        4, 5, transition_temperature=0.1, emission_temperature=0.1, rng=np.random.default_rng(0)
    )
