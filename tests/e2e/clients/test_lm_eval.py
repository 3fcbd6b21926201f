"""lm-eval's models for OpenAI-compatible APIs, on a task made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lm_eval
import pytest

import multiverse_trainer
from multiverse_cli.stack import Stack
from tests.e2e.answers import FLAT

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(300)]

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{question}}}}"
doc_to_target: {target}
{more}
"""
GENERATED = """generation_kwargs: {until: ["?"], max_gen_toks: 300, temperature: 0}
metric_list: [{metric: exact_match}]"""
CHOSEN = """doc_to_choice: "{{choices}}"
metric_list: [{metric: acc}]"""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One task of each kind; nothing is fetched from anywhere."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    rows = [
        {"question": "max a:7+5-3,b:4+9-2,?", "answer": "#b", "choices": ["#z", "+?+"], "label": 0},
        {"question": FLAT, "answer": "#39", "choices": [",b,", "#3"], "label": 1},
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name, kind, target, more in (
        ("written", "generate_until", "answer", GENERATED),
        ("chosen", "multiple_choice", "label", CHOSEN),
    ):
        text = TASK.format(name=name, data=data, kind=kind, target=target, more=more)
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=str(tmp_path), include_defaults=False)


def evaluate(stack: Stack, kind: str, route: str, task: str, tasks: Any, **args: Any) -> Any:
    arguments = {
        "model": "multiverse-tiny",
        "base_url": f"{stack.url}/v1/{route}",
        "tokenizer": str(stack.model),
        **args,
    }
    return lm_eval.simple_evaluate(
        model=kind,
        model_args=arguments,
        tasks=[task],
        task_manager=tasks,
        apply_chat_template=route == "chat/completions",
        bootstrap_iters=0,
    )


def test_a_chat_is_evaluated(stack: Stack, tasks: Any) -> None:
    found = evaluate(stack, "local-chat-completions", "chat/completions", "written", tasks)
    [first, second] = found["samples"]["written"]
    assert "<Parallel>" in first["resps"][0][0]
    assert second["resps"][0][0].endswith("#39")


def test_completions_are_evaluated(stack: Stack, tasks: Any) -> None:
    found = evaluate(
        stack, "local-completions", "completions", "written", tasks, tokenizer_backend="huggingface"
    )
    assert all(sample["resps"][0][0] for sample in found["samples"]["written"])


def test_choices_are_ranked_by_the_likelihood_of_their_text(stack: Stack, tasks: Any) -> None:
    found = evaluate(
        stack, "local-completions", "completions", "chosen", tasks, tokenizer_backend="huggingface"
    )
    for sample in found["samples"]["chosen"]:
        values = [float(value) for value, _ in sample["filtered_resps"]]
        assert len(values) == 2
        assert all(value < 0 for value in values)
        assert values[0] != values[1]


def test_the_generated_tasks_are_a_task_of_lm_eval(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    from lm_eval.tasks import TaskManager

    folder = Path(multiverse_trainer.__file__).parent / "evaluation" / "lm_eval"
    manager = TaskManager(include_path=str(folder), include_defaults=False, metadata={"tasks": 6})
    found = evaluate(
        stack, "local-chat-completions", "chat/completions", "multiverse_generated", manager
    )
    figures = found["results"]["multiverse_generated"]
    assert figures["exact_match,none"] >= 0.5
    assert figures["activation,none"] == 1.0
    assert len(found["samples"]["multiverse_generated"]) == 6
