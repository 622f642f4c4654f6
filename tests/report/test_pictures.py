"""Pictures show the posterior's numbers, say what they leave out, and leave matplotlib as it was."""

import subprocess
import sys
import warnings
from itertools import pairwise
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import countveil as cv
from countveil import report
from countveil.report import canvas
from countveil.report.pictures import PICTURES, function_of, kinds_of
from countveil.report.sheet import fitted_lines

#: Too long, mathematics, a line break, a mark that turns text around.
WORDS = [
    "oil",
    "an incomprehensibly long compound word indeed",
    "$\\frac{",
    "two\nlines",
    "turned\u202e",
    "gas",
]
TRUTH = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((6, 3), 6.0)) + 0.2)
GROUP = np.repeat([0, 1], 6)
MAILS = np.where(np.eye(12), 0, np.random.default_rng(1).poisson(0.3 + 6.0 * (GROUP[:, None] == GROUP)))


@pytest.fixture(scope="session")
def topics():
    labels = ([f"letter {i}" for i in range(12)], WORDS)
    release = cv.simulate_release(TRUTH, epsilon=2, seed=1, keep_negative=True, labels=labels)
    return cv.fit(cv.TopicModel(2), release.hide(([0], [5])), sweeps=200, thin=4, seed=1, progress=False)


@pytest.fixture(scope="session")
def grouped():
    model = cv.TopicModel(2, groups=[f"group {g}" for g in GROUP])
    return cv.fit(model, TRUTH, sweeps=200, thin=4, seed=1, progress=False)


@pytest.fixture(scope="session")
def network():
    names = [f"actor {i}" for i in range(12)]
    release = cv.simulate_release(MAILS, epsilon=2, seed=1, labels=(names, names))
    return cv.fit(cv.CommunityModel(2), release, sweeps=200, thin=4, seed=1, progress=False)


@pytest.fixture(scope="session")
def tensor():
    counts = np.zeros((4, 4, 3), int)
    counts[:2, :2, 0], counts[2:, 2:, 1:] = 30, 20
    labels = {"sender": list("abcd"), "receiver": list("abcd"), "month": ["2001-01", "2001-02", "2001-03"]}
    release = cv.simulate_release(counts, epsilon=2, seed=1, labels=labels)
    return cv.fit(cv.TensorModel(rank=2), release, sweeps=100, thin=3, seed=1, progress=False)


def segments(collection):
    """(y, from x, to x) of horizontal lines."""
    return np.array([(one[0, 1], one[0, 0], one[1, 0]) for one in collection.get_segments()])


def test_pictures_of_means_alone_say_what_they_need():
    release = cv.simulate_release([[9, 0, 1], [0, 8, 2], [5, 5, 5]], epsilon=2, seed=0)
    for keep, drawn in (("columns", report.plot_memberships), ("summaries", report.plot_topics)):
        posterior = cv.fit(cv.TopicModel(2), release, sweeps=8, thin=1, keep=keep, seed=1, progress=False)
        with pytest.raises(ValueError, match="keep: expected a fit with keep='all'"):
            drawn(posterior)
        with pytest.raises(ValueError, match="keep: expected a fit with keep='all'"):
            posterior.aligned()


def test_rows_may_be_called_by_numbers():
    """Positions that a picture chooses are no labels."""
    counts = np.random.default_rng(0).poisson(2.0, (60, 4))
    labels = ([str(i + 1) for i in range(60)], ["4", "3", "2", "1"])
    release = cv.simulate_release(counts, epsilon=2, seed=1, labels=labels)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=100, seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ax = report.plot_memberships(posterior, n_rows=3)
        assert [text.get_text() for text in ax.get_yticklabels()] == ["1", "30", "60"]
        report.plot_matrices(posterior, n_cells=6)


def test_topics_have_their_words_with_means_and_intervals(topics):
    ax = report.plot_topics(topics, n_words=4, interval=0.8)
    table = topics.topics(4, interval=0.8).table
    for k, panel in enumerate(ax.child_axes):
        mine = table[table["topic"] == k]
        assert np.allclose(panel.lines[0].get_xdata(), mine["weight"])
        assert np.allclose(
            segments(panel.collections[0]), np.column_stack([range(4), mine["low"], mine["high"]])
        )
    assert "80 % interval" in ax.get_title(loc="left")


def test_labels_are_cut_and_written_out(topics):
    ax = report.plot_topics(topics, n_words=6)
    words = {text.get_text() for text in ax.child_axes[0].get_yticklabels()}
    assert {"$\\frac{", "two\\nlines", "turned\\u202e", "oil", "gas"} < words
    (long,) = (word for word in words if word.startswith("an incompr"))
    assert long.endswith("…")


def test_memberships_stand_in_their_columns(topics):
    ax = report.plot_memberships(topics, n_rows=5)
    shares = topics.memberships([0, 2, 5, 8, 11])
    for k in range(2):
        assert np.allclose(ax.lines[k].get_xdata(), k + 0.86 * shares["mean"][:, k])
        ends = segments(ax.collections[k])[:, 1:]
        assert np.allclose(ends, k + 0.86 * np.column_stack([shares["low"][:, k], shares["high"][:, k]]))
    assert "5 of 12 rows" in ax.get_title(loc="left")
    assert [text.get_text() for text in ax.get_yticklabels()][1] == "letter 2"


def test_more_topics_than_asked_for_are_said_to_be_left_out(topics):
    assert "The 1 largest of 2 topics" in report.plot_topics(topics, n_topics=1).get_title(loc="left")
    assert "the 1 of 2 these rows" in report.plot_memberships(topics, n_topics=1).get_xlabel()


def test_blocks_show_low_mean_and_high(network):
    ax = report.plot_blocks(network)
    blocks, shown = network.blocks(), ax.images[0].get_array()
    for strip, name in enumerate(("low", "mean", "high")):
        assert np.allclose(shown[:, strip::3], blocks[name])


def test_a_picture_of_very_many_communities_is_no_larger():
    """Of a stranger's 600, at a quarter of an inch each, it took 11 GB."""
    n = 300
    ends = {name: (("from", "to"), np.full((n, n), 1.0)) for name in ("mean", "low", "high")}
    blocks = xr.Dataset({**ends, "agreement": ("from", np.ones(n))})
    many = SimpleNamespace(blocks=lambda interval: blocks, model=cv.CommunityModel(n), tree=xr.DataTree())
    assert max(report.plot_blocks(many).figure.get_size_inches()) < 40


def test_opacity_in_a_network_is_certainty(network, monkeypatch):
    aligned = network._aligned("memberships", "communities")
    sure = np.linspace(0.2, 1.0, 12)
    main = np.arange(12) % 2
    monkeypatch.setattr(aligned, "main_communities", lambda: (main, sure), raising=False)
    ax = report.plot_network(network)
    links, _, nodes = ax.collections
    assert np.allclose(nodes.get_facecolors()[:, 3], sure)
    assert len({tuple(colour[:3]) for colour in nodes.get_facecolors()}) == 2
    rates = np.stack(list(network._kept.rates(np.arange(12), np.arange(12))))
    low, high = np.quantile(rates + rates.swapaxes(1, 2), (0.05, 0.95), axis=0)
    wanted = np.sort(0.75 * np.maximum(0.12, (low / np.where(high > 0, high, 1)))[np.triu_indices(12, 1)])
    found = np.sort(links.get_colors()[:, 3])
    assert np.isin(np.round(found, 9), np.round(wanted, 9)).all()


def test_certainty_counts_the_draws_that_agree(network):
    aligned = network._aligned("memberships", "communities")
    main, sure = aligned.main_communities()
    each = aligned._share.argmax(axis=2)
    assert np.array_equal(sure, (each == main).mean(axis=0))
    assert (sure >= 0.5).all()
    assert len(set(main[:6])) == len(set(main[6:])) == 1


def test_a_large_network_is_bounded_and_says_so(network):
    ax = report.plot_network(network, n_actors=5, n_links=2)
    nodes = ax.collections[-1].get_offsets()
    assert len(nodes) == 5
    assert 2 <= len(ax.collections[0].get_segments()) <= 6  # and the strongest link of every actor
    assert "The 5 strongest of 12 actors" in ax.get_title(loc="left")
    strongest = set(np.argsort(-(MAILS.sum(axis=0) + MAILS.sum(axis=1)))[:8])
    drawn = {int(text.get_text().split()[1]) for text in ax.texts}
    assert drawn <= strongest


def test_actors_of_one_group_are_near_each_other(network):
    places = np.asarray(report.plot_network(network).collections[-1].get_offsets())
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    same = np.repeat([0, 1], 6)[:, None] == np.repeat([0, 1], 6)
    assert apart[same & ~np.eye(12, dtype=bool)].max() < apart[~same].mean()


def test_traces_are_the_monitored_scalars(topics):
    ax = report.plot_traces(topics)
    stats = topics.tree["sample_stats"]
    for panel, name in zip(ax.child_axes, stats.data_vars, strict=True):
        assert np.array_equal([line.get_ydata() for line in panel.lines], stats[name])
        assert (panel.lines[0].get_xdata() == 100 + 4 * np.arange(1, 26)).all(), "sweeps"
    assert len(ax.child_axes[0].get_legend().get_texts()) == 2
    later = report.plot_traces(topics.with_burn_in(120)).child_axes[-1]
    assert later.lines[0].get_xdata()[0] == 124
    assert later.get_xlabel() == "sweep"


def test_selected_chains_keep_their_numbers_and_are_said_to_be_selected(topics, grouped, network, tensor):
    whole = cv.fit(cv.TopicModel(2), TRUTH, sweeps=40, thin=1, chains=3, seed=1, progress=False)
    chosen = whole.chains([0, 2])
    for plot in (report.plot_traces, report.plot_ranks):
        ax = plot(chosen)
        legend = ax.child_axes[0].get_legend()
        assert [text.get_text() for text in legend.get_texts()] == ["0", "2"]
        assert "Selected: 2 of 3 chains (0, 2)." in ax.get_title(loc="left")
        assert "Selected" not in plot(whole).get_title(loc="left")
    both = [report.plot_traces(one).child_axes[0].lines[-1].get_color() for one in (whole, chosen)]
    assert both[0] == both[1], "chain 2 looks the same"
    for kind in PICTURES:
        of = {"prevalence": grouped, "blocks": network, "network": network, "components": tensor}.get(
            kind, topics
        )
        options = {"loo": False} if kind == "pit" else {}  # leaving out takes more draws
        ax = function_of(kind)(of.chains([1]), **options)
        assert "Selected: 1 of 2 chains (1)." in ax.get_title(loc="left").replace("\n", " "), kind


def test_of_very_many_chains_some_are_to_be_chosen(topics, monkeypatch):
    monkeypatch.setattr("countveil.report.chains.MOST_CHAINS", 1)
    for plot in (report.plot_traces, report.plot_ranks):
        with pytest.raises(ValueError, match=r"^posterior: expected at most 1 chains in a picture, got 2; "):
            plot(topics)
        plot(topics.chains([1]))


def test_tex_gets_no_text_of_others(tmp_path, monkeypatch):
    """To TeX, where the reader has set it, a label is a program."""
    seen = []
    monkeypatch.setattr(
        "matplotlib.texmanager.TexManager.get_text_width_height_descent",
        lambda self, tex, *_args, **_named: seen.append(tex) or (1.0, 1.0, 0.0),
    )
    monkeypatch.setattr(
        "matplotlib.texmanager.TexManager.get_grey",
        lambda self, tex, *_args, **_named: seen.append(tex) or np.zeros((1, 1)),
    )
    words = [rf"\\input{{{i}}}" for i in range(6)]
    counts = np.random.default_rng(0).poisson(3, (8, 6))
    groups = [r"\\loop"] * 4 + [r"\\repeat"] * 4
    release = cv.simulate_release(counts, epsilon=2, seed=1, labels=([f"\\row{i}" for i in range(8)], words))
    posterior = cv.fit(cv.TopicModel(2, groups=groups), release, sweeps=40, thin=1, seed=1, progress=False)
    network = cv.simulate_release(counts[:6], epsilon=2, seed=1, labels=(words, words))
    linked = cv.fit(cv.CommunityModel(2), network, sweeps=40, thin=1, seed=1, progress=False)
    with mpl.rc_context({"text.usetex": True}):
        for one, plots in (
            (posterior, (report.plot_topics, report.plot_memberships, report.plot_prevalence)),
            (linked, (report.plot_network,)),
        ):
            for plot in plots:
                report.save_picture(plot(one), tmp_path / f"{plot.__name__}.png")
    assert seen, "TeX is asked for numbers"
    assert not [tex for tex in seen if "input" in tex or "row" in tex or "loop" in tex or "repeat" in tex]


def test_ranks_tell_a_chain_that_is_elsewhere(topics, monkeypatch):
    def outside(posterior):
        panel = report.plot_ranks(posterior).child_axes[0]
        band = panel.patches[0].get_extents().transformed(panel.transData.inverted())
        counts = np.array([one.get_data().values for one in panel.patches[1:]])
        assert (counts.sum(axis=1) == 25).all()
        return ((counts < band.y0 - 1e-9) | (counts > band.y1 + 1e-9)).mean()

    tree = topics.tree.copy()
    values = np.random.default_rng(0).normal(size=(2, 25))
    monkeypatch.setattr(topics, "tree", tree)
    tree["sample_stats/sampled_log_likelihood"] = xr.DataArray(values, dims=("chain", "draw"))
    assert outside(topics) < 0.2
    tree["sample_stats/sampled_log_likelihood"] = xr.DataArray(values + [[0], [10]], dims=("chain", "draw"))  # noqa: RUF005
    assert outside(topics) > 0.6


def test_components_by_axis(tensor):
    ax = report.plot_components(tensor, n_labels=2)
    found = tensor.components(2)
    assert len(ax.child_axes) == 6
    first, _, month = ax.child_axes[:3]
    mean = found.factors["sender"]["mean"][0].to_numpy()
    assert np.allclose(first.lines[0].get_xdata(), np.sort(mean)[::-1][:2])
    assert np.allclose(
        month.lines[0].get_ydata(), found.factors["month"]["mean"][0]
    )  # dates: all of them, in order
    assert (month.get_xlabel(), month.get_ylabel()) == ("month", "share")
    whole = report.plot_components(tensor, in_order=["sender"]).child_axes[0]
    assert len(whole.lines[0].get_ydata()) == 4
    with pytest.raises(
        ValueError, match="in_order: expected names among 'sender', 'receiver', 'month', got 'day'"
    ):
        report.plot_components(tensor, in_order=["day"])


def test_matrices_side_by_side(topics):
    order, words = np.arange(12)[::-1], np.arange(6)
    ax = report.plot_matrices(topics, truth=TRUTH, rows=order, columns=words)
    panels = {panel.get_title(): panel for panel in ax.child_axes if panel.images}
    assert list(panels) == ["released", "estimated", "true"]
    released = topics.release.to_dense(missing=np.nan)[order]
    shown = panels["released"].images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), np.isnan(released))
    assert np.array_equal(shown.filled(0), np.nan_to_num(released))
    assert (released < 0).any()
    assert np.allclose(panels["estimated"].images[0].get_array(), topics.rates().to_numpy()[order])
    assert np.array_equal(panels["true"].images[0].get_array(), TRUTH[order])
    red, _, blue = panels["true"].images[0].to_rgba(np.array([[3.0, -3.0]]))[0, 0, :3]
    assert red > blue
    red, _, blue = panels["true"].images[0].to_rgba(np.array([[3.0, -3.0]]))[0, 1, :3]
    assert blue > red


def test_matrices_are_bounded_and_sorted(topics, network):
    ax = report.plot_matrices(topics, n_cells=4)
    assert ax.child_axes[0].images[0].get_array().shape == (4, 4)
    assert "4 of 12 rows, 4 of 6 columns" in ax.get_title(loc="left").replace("\n", " ")
    network_picture = report.plot_matrices(network)
    shares = network.memberships()["mean"].to_numpy().argmax(axis=1)
    order = np.argsort(shares, kind="stable")
    estimated = network_picture.child_axes[1].images[0].get_array()
    assert np.allclose(estimated, network.rates().to_numpy()[np.ix_(order, order)])


@pytest.mark.parametrize("truth", [TRUTH[:2], TRUTH.T])
def test_truth_of_another_shape(topics, truth):
    with pytest.raises(ValueError, match=r"truth: expected an array of shape \(12, 6\), got "):
        report.plot_matrices(topics, truth=truth)


@pytest.mark.parametrize(
    "kind", [kind if kind == "blocks" else pytest.param(kind, marks=pytest.mark.long) for kind in PICTURES]
)
def test_every_picture_is_drawn_whole_and_alike(kind, topics, grouped, network, tensor, tmp_path):
    before = dict(dict.items(mpl.rcParams))
    posteriors = [one for one in (topics, grouped, network, tensor) if kind in kinds_of(one)]
    assert posteriors
    for posterior in posteriors:
        first, again = (
            report.save_picture(function_of(kind)(posterior), tmp_path / "a.svg").read_bytes()
            for _ in range(2)
        )
        assert first == again
        figure = function_of(kind)(posterior).figure
        figure.canvas.draw()
        drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) > -0.02
    assert dict(dict.items(mpl.rcParams)) == before
    with pytest.raises(TypeError, match="ax: expected matplotlib Axes or None, got int"):
        function_of(kind)(posteriors[0], 3)


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_goes_into_axes_that_are_given(kind, topics, grouped, network, tensor):
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    posterior = next(one for one in (topics, grouped, network, tensor) if kind in kinds_of(one))
    assert function_of(kind)(posterior, right) is right
    assert left.get_title(loc="left") == ""
    assert [*left.child_axes, *left.lines, *left.collections] == []


def test_labels_beside_panels_do_not_overlap(topics):
    ax = report.plot_topics(topics, n_words=6)
    ax.figure.canvas.draw()
    for panel in ax.child_axes:
        places = [text.get_window_extent() for text in panel.get_yticklabels()]
        assert all(p.y0 > q.y1 - 1 for p, q in pairwise(places))
    first, second = ax.child_axes
    right = first.get_window_extent().x1
    assert all(text.get_window_extent().x0 > right for text in second.get_yticklabels())


def test_names_of_actors_do_not_overlap(network):
    ax = report.plot_network(network)
    ax.figure.canvas.draw()
    places = [text.get_window_extent() for text in ax.texts]
    assert len(places) > 6
    for i, p in enumerate(places):
        for q in places[:i]:
            assert not (p.x0 < q.x1 - 1 and q.x0 < p.x1 - 1 and p.y0 < q.y1 - 1 and q.y0 < p.y1 - 1)


@pytest.mark.long
def test_formats_by_name(topics, tmp_path):
    ax = report.plot_traces(topics)
    for name, start in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")):
        assert report.save_picture(ax, tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(
        ValueError, match=r"path: expected a name that ends in \.png or \.svg or \.pdf, got 'a\.jpg'"
    ):
        report.save_picture(ax, tmp_path / "a.jpg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.SVG", "a.pdf", "a.png"]


@pytest.mark.long
def test_pyplot_is_left_alone():
    program = (
        "import sys\n"
        "from countveil.report.pictures import PICTURES, function_of\n"
        "assert 'matplotlib' not in sys.modules\n"
        "assert all(map(function_of, PICTURES))\n"
        "assert 'matplotlib' in sys.modules\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_labels_of_a_hundred_thousand_letters_are_cut_at_once():
    """A letter was taken away at a time, and all others measured again: 20 kB took many minutes."""
    short = canvas.fitted("x" * 100_000, 0.5)
    assert short == canvas.fitted("x" * 1000, 0.5)
    assert len(short) < 20
    assert canvas.room_for(["x" * 1_000_000]) == canvas.room_for(["x" * 1000])


def test_a_label_is_measured_few_times():
    """A measurement takes milliseconds, and a letter was taken away at a time."""
    measured = []

    def width_of(text):
        measured.append(text)
        return len(text)

    assert fitted_lines(["x" * 100_000], width_of, 20, 1) == ["x" * 19 + "…"]
    assert len(measured) < 20
    assert fitted_lines(["spaces  at the cut"], len, 8, 1) == ["spaces…"]
    assert fitted_lines(["none fits"], len, 0, 1) == ["…"]
