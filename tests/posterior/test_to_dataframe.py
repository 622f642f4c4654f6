"""Every answer as a plain table."""

import numpy as np
import pandas as pd
import pytest


def test_topics(posterior):
    table = posterior.to_dataframe(n_words=3, interval=0.5)
    assert table.columns.tolist() == ["topic", "rank", "word", "weight", "low", "high"]
    assert table["topic"].tolist() == [0, 0, 0, 1, 1, 1]
    assert table["rank"].tolist() == [0, 1, 2, 0, 1, 2]
    topics = posterior.topics(3, interval=0.5)
    pd.testing.assert_frame_equal(table, topics.table)
    for _, row in table.iterrows():
        found = topics.weights.sel(topic=row["topic"], word=row["word"])
        assert [row["weight"], row["low"], row["high"]] == [float(found[n]) for n in ("mean", "low", "high")]
    assert (table["weight"].diff()[table["rank"] > 0] <= 0).all()


@pytest.mark.parametrize(
    ("what", "options", "columns", "n_rows"),
    [
        ("memberships", {"rows": ["g"]}, ["document", "topic", "mean", "low", "high", "agreement"], 2),
        ("rates", {"columns": ["gas", "oil"]}, ["document", "word", "rate"], 12),
        ("true_counts", {"rows": 1}, ["document", "word", "mean", "low", "high", "positive"], 5),
        ("scalars", {}, ["chain", "draw", "sampled_log_likelihood", "total_rate", "log_joint"], 60),
    ],
)
def test_other_tables(posterior, what, options, columns, n_rows):
    table = posterior.to_dataframe(what, **options)
    assert isinstance(table, pd.DataFrame)
    assert sorted(table.columns) == sorted(columns)
    assert len(table) == n_rows
    if what != "scalars":
        whole = getattr(posterior, what)(**options)
        values = whole if what == "rates" else whole["mean"]
        np.testing.assert_allclose(
            table["rate" if what == "rates" else "mean"], values.to_numpy().reshape(-1)
        )


def test_unknown_tables_and_options(posterior):
    with pytest.raises(
        ValueError,
        match="what: expected one of topics, memberships, prevalence, blocks, components, scales, rates, true_counts, scalars, got 'x'",
    ):
        posterior.to_dataframe("x")
    with pytest.raises(TypeError, match="options: expected none for 'scalars', got rows"):
        posterior.to_dataframe("scalars", rows=[1])
    with pytest.raises(TypeError, match="unexpected keyword"):
        posterior.to_dataframe("rates", interval=0.5)
