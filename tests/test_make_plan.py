"""A plan is made only of a model that can be built, with parameters that it has."""

import pytest

from fedcsa.errors import FedCSAError, ModelError, ParameterError, UntrustedError
from fedcsa.plan import make_plan
from fedcsa.study.model_section import describe_model

FOREST = "sklearn.ensemble.RandomForestClassifier"


def planned(model, candidates, n_classes):
    classes = tuple(range(n_classes))
    return make_plan(describe_model(model), candidates, {}, features=("x",), classes=classes)


@pytest.mark.parametrize(
    ("model", "candidates", "n_classes", "error", "text"),
    [
        ({"name": "ridge"}, [{}], 2, FedCSAError, "predicts numbers"),
        ({"name": FOREST}, [{}], 0, ModelError, "The model is a classifier"),
        ({"name": "sklearn.ensemble.Forest"}, [{}], 2, ModelError, "is not installed"),
        ({"name": "os.path"}, [{}], 2, UntrustedError, "trusted"),
        ({"name": FOREST, "parameters": {"trees": 3}}, [{}], 2, ModelError, "no parameter 'trees'"),
        (
            {"name": FOREST},
            [{"max_dept": 3}, {"n_estimator": 3}],
            2,
            ParameterError,
            r"Unknown candidate parameter 'max_dept'. Did you mean 'max_depth'\?\nUnknown",
        ),
        (
            {"name": "sklearn.neighbors.KNeighborsClassifier"},
            [{"ratio_power": 1.0}],
            2,
            ModelError,
            "does not take sample weights",
        ),
        (
            {"name": "sklearn.preprocessing.StandardScaler"},
            [{}],
            0,
            ModelError,
            "StandardScaler must be able to predict",
        ),
        (
            {"name": "sklearn.multiclass.OneVsRestClassifier"},
            [{}],
            2,
            ModelError,
            "must be given all its required parameters",
        ),
    ],
)
def test_a_model_that_cannot_be_built(model, candidates, n_classes, error, text):
    with pytest.raises(error, match=text):
        planned(model, candidates, n_classes)


def test_a_model_that_can_be_built():
    planned({"name": "ridge"}, [{"penalty": 1.0}], 0)
    planned({"name": FOREST}, [{"max_depth": 3, "ratio_power": 1.0}], 2)
