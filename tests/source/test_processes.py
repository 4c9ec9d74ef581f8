"""Work by forked processes: the same answers, errors as if there were none, nobody left behind."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedcsa import FedCSA
from fedcsa.models.estimators import SklearnModel, can_be_forked
from fedcsa.models.model import LinearRegression
from fedcsa.source import fits, processes
from fedcsa.source.processes import on_all_cores, shared_zeros, watched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch):
    monkeypatch.setattr(processes, "WORTH_STARTING", -1.0)


def children():
    """Processes whose parent this one is."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("n_tasks", [0, 1, 3, 500])
def test_the_answers_are_those_of_a_loop_in_their_order(workers, n_tasks):
    numbers = shared_zeros([n_tasks, 2])

    def task(index):
        numbers[index] = index, index**2
        return "ä" * (index % 7) * 10_000  # more than a pipe takes at once

    before, pipes = children(), open_files()
    found = on_all_cores(task, n_tasks, workers)
    assert found == ["ä" * (index % 7) * 10_000 for index in range(n_tasks)]
    assert numbers.tolist() == [[index, index**2] for index in range(n_tasks)]
    assert children() == before
    assert open_files() == pipes


@pytest.mark.parametrize("workers", [1, 2])
def test_whoever_watches_is_told_how_many_tasks_are_done(workers, monkeypatch):
    monkeypatch.setattr(processes, "TOLD_EVERY", 0.0)
    told = []
    with watched(lambda *far: told.append(far)):
        on_all_cores(str, 30, workers)
    on_all_cores(str, 5, workers)  # nobody watches any more
    assert told == [(done, 30) for done in range(1, 31)]


def test_short_work_is_not_told_of():
    told = []
    with watched(lambda *far: told.append(far)):
        on_all_cores(str, 30, 1)
    assert told == []


def test_the_work_is_done_by_others():
    found = on_all_cores(lambda _: str(os.getpid()), 50, 2)
    assert str(os.getpid()) == found[0]  # the first says how long the rest takes
    assert str(os.getpid()) not in found[1:]


def test_little_work_is_done_here(monkeypatch):
    monkeypatch.setattr(processes, "WORTH_STARTING", 60.0)
    assert set(on_all_cores(lambda _: str(os.getpid()), 50, 2)) == {str(os.getpid())}


def test_an_error_is_raised_as_if_there_were_no_processes():
    def task(index):
        if index == 7:
            raise ZeroDivisionError("seven")
        return ""

    before = children()
    with pytest.raises(ZeroDivisionError, match="seven"):
        on_all_cores(task, 20, 2)
    assert children() == before


def test_what_a_process_was_at_when_it_died_is_done_here():
    parent = os.getpid()

    def task(index):
        if index in (3, 4, 5) and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return str(index)

    assert on_all_cores(task, 40, 2) == [str(index) for index in range(40)]


def test_what_a_process_waits_for_in_vain_is_done_here(monkeypatch):
    monkeypatch.setattr(processes, "STALLED", 0.2)
    parent, before, pipes = os.getpid(), children(), open_files()

    def task(index):
        while index in (3, 4) and os.getpid() != parent:
            signal.pause()  # as for a lock that a thread of the parent held at the fork
        return str(index)

    assert on_all_cores(task, 40, 2) == [str(index) for index in range(40)]
    assert (children(), open_files()) == (before, pipes)


def test_processes_that_compute_are_waited_for(monkeypatch):
    monkeypatch.setattr(processes, "STALLED", 0.01)
    ticks = itertools.count()
    monkeypatch.setattr(processes, "_computed", lambda _: next(ticks))

    def task(index):
        time.sleep(0.2 if index else 0.0)
        return str(os.getpid())

    assert str(os.getpid()) not in on_all_cores(task, 3, 2)[1:]


def test_the_cpu_time_of_processes_is_told():
    own = processes._computed([os.getpid()])
    while time.process_time() * os.sysconf("SC_CLK_TCK") < own + 3:
        pass
    assert processes._computed([os.getpid()]) > own
    assert processes._computed([2**30]) == 0.0


SLOW = """
    import os, signal, time
    from fedcsa.source import processes
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background runners ignore it
    processes.WORTH_STARTING = -1.0
    def task(index):
        if index in (1, 2):
            os.write(1, (str(os.getpid()) + chr(10)).encode())
        if index:
            time.sleep({seconds})
        return ""
    processes.on_all_cores(task, 50, 2)
"""


def started(seconds):
    """A program whose two processes are at work, and their numbers."""
    code = textwrap.dedent(SLOW.format(seconds=seconds))
    program = subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return program, [int(program.stdout.readline()) for _ in range(2)]


def gone(process):
    """Whether a process ends, waited for as long as a slow machine needs."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
            if state.rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def test_an_interrupt_ends_all_processes():
    program, workers = started(300)
    program.send_signal(signal.SIGINT)
    _, error = program.communicate()
    assert "KeyboardInterrupt" in error
    assert all(map(gone, workers))


def test_no_process_outlives_a_parent_that_was_killed_by_more_than_a_task():
    program, workers = started(0.5)
    program.kill()
    program.wait()
    program.stdout.close()
    program.stderr.close()
    assert all(map(gone, workers))


# The fits of a source -----------------------------------------------------------------------


PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())


def site(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(0.1 * seed, 1.0, (n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.0, "yes", "no")


@pytest.mark.parametrize(
    ("model", "candidates"),
    [
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            {"logisticregression__C": [0.1, 1]},
        ),
        (RandomForestClassifier(5), {"max_depth": [1, -1]}),  # one fails
        (HistGradientBoostingClassifier(max_iter=3), {"max_depth": [1, 2]}),
    ],
)
def test_the_number_of_cores_changes_no_bit(model, candidates, monkeypatch):
    sources, X = {f"s{k}": site(80, k) for k in range(3)}, site(60, 0)[0]
    HistGradientBoostingClassifier(max_iter=2).fit(*sources["s0"])  # on the threads of OpenMP
    found = []
    for workers in (1, 3):
        monkeypatch.setattr(processes, "available_cores", lambda own=workers: own)
        fitted = FedCSA(model, candidates=candidates, random_state=1).fit(sources, X)
        reports = fitted.adaptation_.reports.values()
        numbers = [number.tobytes() for r in reports for number in (r.risk, r.variance)]
        failed = [(dict(r.failed), r.findings) for r in reports]
        found.append((numbers, failed, fitted.interval_, fitted.predict_proba(X).tobytes()))
    assert found[0] == found[1]


def test_only_what_is_of_scikit_learn_and_on_one_core_is_forked():
    class Own(LogisticRegression):
        pass

    def forked(estimator, **candidate):
        return can_be_forked(SklearnModel(estimator, 2), [candidate])

    assert forked(LogisticRegression(), C=1.0)
    assert forked(make_pipeline(StandardScaler(), RandomForestClassifier(n_jobs=1)))
    assert not forked(Own())
    assert not forked(make_pipeline(StandardScaler(), Own()))
    assert not forked(
        make_pipeline(StandardScaler(), LogisticRegression()), logisticregression=Own()
    )
    assert not forked(RandomForestClassifier(n_jobs=2))
    assert not forked(RandomForestClassifier(), n_jobs=-1)
    assert not can_be_forked(LinearRegression(), [{}])


def test_held_out_predictions_are_those_of_models_fitted_again(monkeypatch):
    kept = []
    original = fits.RowFits.held_out

    def watched(self, candidates):
        found = original(self, candidates)
        kept.append((self, candidates, found))
        return found

    monkeypatch.setattr(fits.RowFits, "held_out", watched)
    sources = {f"s{k}": site(80, k) for k in range(2)}
    FedCSA(LogisticRegression(), candidates={"C": [0.1, 1.0]}, random_state=1).fit(
        sources, site(60, 0)[0]
    )
    for own, candidates, (outputs, paths) in kept:
        whole = own.rows.whole()
        labels = own.folds.labels(whole)
        again = own.paths(own.turns, candidates)
        for turn, path, told in zip(own.folds.turns, again, paths, strict=True):
            here = labels == turn.judge
            assert (told.models, told.n_rows) == ((), path.n_rows)
            for index, model in enumerate(path.models):
                np.testing.assert_array_equal(outputs[index, here], model.predict(whole.seen[here]))


# The fits of a back-test --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "candidates", "scale", "a_fold"),
    [
        (LogisticRegression(), {"C": [0.1, 1.0]}, False, 2),
        (LogisticRegression(), {"C": [0.1], "ratio_power": [0.0, 1.0]}, False, 1 + 2),
        (LogisticRegression(), {"C": [0.1, 1.0]}, True, 2 * 2),
        (RandomForestClassifier(2), {"max_depth": [1]}, False, 2),
    ],
)
def test_fits_that_do_not_depend_on_the_target_are_made_once(
    model, candidates, scale, a_fold, monkeypatch
):
    sources = {f"s{k}": site(60, k) for k in range(3)}  # each is asked by two targets
    study = FedCSA(model, candidates=candidates, scale=scale, random_state=1)
    fitted = []
    original = fits.RowFits._path

    def counted(self, job, own, *rest):
        if job.purpose != "model-refit":
            fitted.append((self.rows.source, job.purpose))
        return original(self, job, own, *rest)

    monkeypatch.setattr(processes, "available_cores", lambda: 1)
    monkeypatch.setattr(fits.RowFits, "_path", counted)
    found = study.backtest(sources)
    assert len(fitted) == len(sources) * 5 * a_fold
    monkeypatch.setattr(fits.RowFits, "_key", lambda *_: "")
    assert study.backtest(sources) == found
