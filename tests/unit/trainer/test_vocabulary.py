"""Rows of tags begin as the means of the words that they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from multiverse_trainer.recipe.vocabulary import TrainingVocabulary
from tests.unit.trainer.rows import TINY


def model(rows: int, *, tied: bool) -> Any:
    torch.manual_seed(1)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=rows, num_attention_heads=2, tie_word_embeddings=tied, **size)
    )


@pytest.mark.parametrize("tied", [True, False])
def test_a_new_tag_is_the_mean_of_its_words_and_other_rows_stay(tied: bool) -> None:
    vocabulary = TrainingVocabulary.load(TINY, "npr")  # whose tags the tiny model does not have
    had = min(vocabulary.tokens.new.values())
    made = model(had, tied=tied)
    before = {
        "in": made.get_input_embeddings().weight.clone(),
        "out": made.get_output_embeddings().weight.clone(),
    }
    filled = vocabulary.initialise(made, "new")
    assert set(filled) == set(vocabulary.dialect.tags.values())
    now = {"in": made.get_input_embeddings().weight, "out": made.get_output_embeddings().weight}
    assert (now["in"] is now["out"]) is tied
    assert made.config.vocab_size == had + len(filled)
    words = vocabulary.tokenizer.encode("end of plan")
    index = vocabulary.tokens.ids["</plan>"]
    for name, rows in now.items():
        assert torch.equal(rows[:had], before[name])
        assert torch.equal(rows[index], before[name][words].mean(0))
        assert not torch.equal(rows[index], rows[vocabulary.tokens.ids["<plan>"]])


def test_tags_that_have_rows_keep_them_unless_all_are_asked_for() -> None:
    vocabulary = TrainingVocabulary.load(TINY, "multiverse")
    made = model(vocabulary.tokenizer.vocab_size, tied=True)
    before = made.get_input_embeddings().weight.clone()
    assert vocabulary.initialise(made, "new") == []
    assert torch.equal(made.get_input_embeddings().weight, before)
    assert vocabulary.initialise(made, "all") == list(vocabulary.dialect.tags.values())
    words = vocabulary.tokenizer.encode("Goal")
    row = made.get_input_embeddings().weight[vocabulary.tokens.ids["<Goal>"]]
    assert torch.allclose(row, before[words].mean(0))
