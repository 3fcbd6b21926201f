"""From a model directory and settings to a simulator that speaks the model's dialect.

Of the directory only the text files are read: weights and configuration need not be there.
"""

from __future__ import annotations

import json

from multiverse_shared.errors import InvalidModel, InvalidRequest
from multiverse_shared.grammar import Grammar
from multiverse_shared.model_card import ModelCard
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_worker.engines.sim.engine import SimEngine, SimOptions
from multiverse_worker.engines.sim.faults import Faults
from multiverse_worker.engines.sim.settings import SimSettings
from multiverse_worker.engines.sim.shapes import TreeDistribution
from multiverse_worker.engines.sim.timing import StepTimes
from multiverse_worker.engines.sim.trees import AnswerStyle, TreeScripts
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.settings import WorkerSettings


def launch(model: ModelDirectory, settings: WorkerSettings) -> SimEngine:
    """InvalidModel or InvalidRequest name the file or the setting at fault."""
    tokenizer = TextTokenizer.from_directory(model.path)
    card = ModelCard.parse(model.text_files["multiverse.json"])
    grammar = Grammar.bind(card.dialect, tokenizer)
    eos = _end_of_sequence(model.text_files, tokenizer)
    options = SimOptions(
        kv_cells=settings.kv_cells,
        sequences=settings.sequences,
        batch_tokens=settings.batch_tokens,
        context_length=settings.sim_context_length,
        speed=settings.sim_speed,
    )
    return SimEngine(
        options,
        TreeScripts(grammar, tokenizer.vocab_size, eos, answer_style(settings)),
        step_times(settings),
        namespace=model.files_digest,
        faults=Faults(settings.sim_faults, settings.sim_control),
    )


def answer_style(settings: SimSettings) -> AnswerStyle:
    distribution = TreeDistribution(
        paths=settings.sim_paths,
        depth=settings.sim_depth,
        blocks=settings.sim_blocks,
        text=settings.sim_text_tokens,
        outline=settings.sim_outline_tokens,
        path=settings.sim_path_tokens,
        conclusion=settings.sim_conclusion_tokens,
    )
    return AnswerStyle(settings.sim_answers, distribution)


def step_times(settings: SimSettings) -> StepTimes:
    try:
        return StepTimes.of(
            settings.sim_machine, settings.sim_prefill_tokens_per_s, settings.sim_context_ms
        )
    except InvalidRequest as error:
        raise InvalidRequest(error.message, field="sim_machine") from None


def _end_of_sequence(files: dict[str, bytes], tokenizer: TextTokenizer) -> int:
    """The id that a model ends its answer with: of the generation config, else the tokenizer's."""
    found = json.loads(files.get("generation_config.json", b"{}")).get("eos_token_id")
    if isinstance(found, list):
        found = found[0] if found else None
    if found is None:
        token = json.loads(files.get("tokenizer_config.json", b"{}")).get("eos_token", "")
        found = tokenizer.token_id(token["content"] if isinstance(token, dict) else token)
    if not isinstance(found, int):
        raise InvalidModel("the model names no end of sequence; set eos_token_id", field="model")
    return found
