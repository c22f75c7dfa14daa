import numpy as np
import pandas as pd
import pytest

from dre import fusion
from dre.errors import DreError


def test_a_score_comes_from_the_scale_of_its_judge():
    assert fusion.to_llm_scale(np.array([1, 3, 5]), 1, 5).tolist() == [0, 2.5, 5]
    with pytest.raises(DreError, match="expected 1 to 5"):
        fusion.to_llm_scale(0.5, 1, 5)


def test_slide_has_three_cases_and_the_first_that_holds_wins():
    slm, llm = pd.Series([1.0, 0.9, 0.9, 1.6]), pd.Series([5.0, 2.4, 2.5, 1.0])
    # the judge's are 2.0, 0.96, 1.0 and 0.4 on the small model's scale
    assert fusion.slide(slm, llm).tolist() == pytest.approx([1.0, 0.96, 0.95, 1.6])
    assert fusion.slide_case(slm, llm).tolist() == ["slm", "llm", "mean", "slm"]
    assert fusion.slide(slm, llm, overlap="llm").tolist() == pytest.approx([1.0, 0.96, 0.95, 0.4])
    assert fusion.slide_case(slm, llm, threshold=0.5).tolist() == ["slm", "slm", "slm", "slm"]


def test_a_missing_number_stays_missing():
    slm, llm, s_inf = (pd.Series(values) for values in ([np.nan, 1, 0.2], [4, np.nan, 1], [1.0, 1, 1]))
    for found in (fusion.slide(slm, llm), fusion.ex_dre(slm, slm, llm), fusion.dre(slm, slm, llm, s_inf, "c")):
        assert found.isna().tolist() == [True, True, False]
    assert fusion.slide_case(slm, llm).tolist() == [None, None, "llm"]
