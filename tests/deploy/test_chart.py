"""The chart in small; `make chart` looks at all value files and at every value."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from tests.deploy.helm import CHART, Helm, HelmError, Object, helms
from tests.deploy.leaves import misspelt
from tests.deploy.policies import violations
from tests.deploy.resources import KUBERNETES, invalid

EVERYTHING = CHART / "ci" / "everything.yaml"
MINIMAL = CHART / "ci" / "minimal.yaml"


@pytest.fixture(scope="module")
def helm() -> Helm:
    return helms()[-1]


@pytest.fixture(scope="module")
def everything(helm: Helm) -> list[Object]:
    return helm.render(EVERYTHING)


def test_kubernetes_takes_what_is_rendered(everything: list[Object]) -> None:
    assert list(invalid(everything, KUBERNETES[-1])) == []


def test_what_is_rendered_keeps_to_the_policies(everything: list[Object]) -> None:
    assert violations(everything) == []


def test_both_versions_of_helm_refuse_every_misspelt_key_by_its_name(tmp_path: Path) -> None:
    values, keys = misspelt()
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values), "utf-8")
    for version in helms():
        with pytest.raises(HelmError) as refused:
            version.template(file)
        assert [key for key in keys if key not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("models.tiny.source.pvc.claim=c", r"models\.tiny\.source names 2 sources"),
        ("models.tiny.engine=sglang", r"models\.tiny\.gpus is 0"),
        ("models.tiny.tensorParallel=4", r"models\.tiny\.tensorParallel is 4 but gpus is 0"),
        ("models.Tiny.gpus=1", "Tiny"),
        ("trainer.enabled=true", r"trainer\.claim is empty"),
        ("gateway.enabled=true", r"gateway\.parent\.name is empty"),
        ("router.settings.max_requests=0", "max_requests"),
    ],
)
def test_values_that_can_not_work_are_refused_with_a_remedy(
    helm: Helm, setting: str, said: str
) -> None:
    with pytest.raises(HelmError, match=said):
        helm.template(MINIMAL, sets=[setting])


def test_a_chart_without_models_says_how_to_name_one(helm: Helm) -> None:
    with pytest.raises(HelmError, match="models is empty: name at least one"):
        helm.template()


def test_a_changed_setting_restarts_the_pods_that_read_it(helm: Helm) -> None:
    def sums(*sets: str) -> dict[str, str]:
        return {
            found["metadata"]["name"]: found["spec"]["template"]["metadata"]["annotations"][
                "checksum/config"
            ]
            for found in helm.render(MINIMAL, sets=sets)
            if found["kind"] == "Deployment"
        }

    before, after = sums(), sums("router.settings.log_level=DEBUG")
    assert {name for name in before if before[name] != after[name]} == {"mv-multiverse-router"}


def first(made: list[Object], kind: str) -> Object:
    """The router's object of a kind, or the first one when it has none."""
    found = [one for one in made if one["kind"] == kind]
    return next((one for one in found if one["metadata"]["name"].endswith("router")), found[0])


def broken(everything: list[Object], kind: str, *path: str | int, value: object) -> list[Object]:
    """The render with one thing in it changed."""
    made = copy.deepcopy(everything)
    place = first(made, kind)
    for key in path[:-1]:
        place = place[key]  # type: ignore[index]
    place[path[-1]] = value  # type: ignore[index]
    return made


POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)


@pytest.mark.parametrize(
    ("check", "kind", "path", "value"),
    [
        ("restricted_pods", "Deployment", (*POD, "securityContext"), {}),
        ("restricted_pods", "Deployment", (*POD, "hostNetwork"), True),
        ("restricted_containers", "Deployment", (*CONTAINER, "securityContext"), {}),
        ("requests_and_limits", "Deployment", (*CONTAINER, "resources"), {}),
        ("probes", "Deployment", (*CONTAINER, "readinessProbe"), None),
        ("no_inlined_secret", "ConfigMap", ("data", "API_TOKEN"), "x"),
        ("own_accounts", "Deployment", (*POD, "serviceAccountName"), "default"),
        ("pinned_images", "Deployment", (*CONTAINER, "image"), "multiverse/router"),
        ("known_callers", "NetworkPolicy", ("spec", "ingress"), [{}]),
        ("graceful_ends", "Deployment", (*POD, "terminationGracePeriodSeconds"), 30),
        ("restarted_by_config", "Deployment", ("spec", "template", "metadata", "annotations"), {}),
        ("spread", "Deployment", (*POD, "topologySpreadConstraints"), []),
        ("least_rights", "Role", ("rules", 0, "verbs"), ["*"]),
        ("monitored", "ServiceMonitor", ("spec", "endpoints", 0, "port"), "none"),
        ("monitored", "ServiceMonitor", ("spec", "selector", "matchLabels"), {"app": "other"}),
    ],
)
def test_each_policy_sees_what_breaks_it(
    everything: list[Object], check: str, kind: str, path: tuple[str | int, ...], value: object
) -> None:
    made = broken(everything, kind, *path, value=value)
    if value is None:
        place = first(made, kind)
        for key in path[:-1]:
            place = place[key]  # type: ignore[index]
        del place[path[-1]]  # type: ignore[arg-type]
    assert check in {wrong.partition(":")[0] for wrong in violations(made)}
