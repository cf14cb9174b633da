"""Settings of a config under which an architecture computes in another way, against transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.errors import FailedPrecondition

from tests.support.exports import load_exported
from tests.support.family import FAMILY, VARIANTS, optional_settings
from tests.support.reference import Reference, Subject, assert_close, assert_equal
from tests.support.tiny import TASKS, write_checkpoint


@pytest.mark.parametrize(("architecture", "settings"), VARIANTS, ids=str)
def test_a_variant_equals_eager(architecture: str, settings: Mapping[str, Any], tmp_path: Path) -> None:
    subject = Subject(architecture, write_checkpoint(architecture, tmp_path / "model", settings=settings))
    batch = subject.run(subject.sequences)
    for index, sequence in enumerate(subject.sequences):
        expected = subject.reference.run([sequence]).row(0)
        assert_equal(subject.run([sequence]).row(0), expected)
        assert_close(batch.row(index), expected)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", FAMILY)
def test_every_optional_setting_equals_eager(architecture: str, tmp_path: Path) -> None:
    """And is accepted: the names and shapes that a config asks for are those of the model that transformers makes of it."""
    for number, settings in enumerate(optional_settings(architecture)):
        subject = Subject(architecture, write_checkpoint(architecture, tmp_path / str(number), settings=settings))
        if architecture != "nomic_bert":  # whose config has settings that the check does not know
            check_source(inspect(subject.folder))
        # One segment is all that pairs have then.
        sequences = [one for one in subject.sequences if max(one.segments) < subject.encoder.shape.segments][::3]
        batch = subject.run(sequences)
        for index, sequence in enumerate(sequences):
            expected = subject.reference.run([sequence]).row(0)
            assert_close(subject.run([sequence]).row(0), expected)
            assert_close(batch.row(index), expected)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", "albert"])
def test_a_model_of_one_segment_loads_and_is_exported(architecture: str, tmp_path: Path, export_cache: Path) -> None:
    folder = write_checkpoint(architecture, tmp_path / "model", settings={"type_vocab_size": 1})
    subject = Subject(architecture, folder)
    sequences = [one for one in subject.sequences if not any(one.segments)][:2]
    found = subject.run(sequences, encoder=load_exported(folder, export_cache))
    for index, sequence in enumerate(sequences):
        assert_close(found.row(index), subject.reference.run([sequence]).row(0))


@pytest.mark.every_architecture
@pytest.mark.parametrize(
    ("architecture", "pooling"), [("eurobert", "bos"), ("eurobert", "mean"), ("modernbert", "cls"), ("modernbert", "mean")]
)
@torch.inference_mode()
def test_a_pooling_equals_transformers(architecture: str, pooling: str, tmp_path: Path) -> None:
    folder = write_checkpoint(architecture, tmp_path / "model", labels=3, settings={"classifier_pooling": pooling})
    subject, reference = Subject(architecture, folder), Reference(folder, kind=TASKS["sequence"])
    encoder = subject.encoder
    state = encoder.begin(subject.sequences)
    encoder.advance(state, encoder.shape.layers)
    found = encoder.classify(state)
    expected = [reference.model(**reference.inputs([sequence])).logits[0] for sequence in subject.sequences]
    assert_close(list(found), expected)


@torch.inference_mode()
def test_normalisations_before_the_blocks_of_flaubert(tmp_path: Path) -> None:
    """transformers' own code can't run these without a cache for each layer, so that the sums are written out here."""
    subject = Subject("flaubert", write_checkpoint("flaubert", tmp_path / "model", settings={"pre_norm": True}))
    base, sequence = subject.reference.model.transformer, subject.sequences[3]
    run = subject.run([sequence])
    for layer, (before, after) in enumerate(zip(run.hidden, run.hidden[1:], strict=False)):
        own = base.attentions[layer]
        read = base.layer_norm1[layer](before)
        query, key, value = (
            projection(read).unflatten(2, (4, -1)).transpose(1, 2) for projection in (own.q_lin, own.k_lin, own.v_lin)
        )
        maps = (query @ key.transpose(2, 3) / query.shape[-1] ** 0.5).softmax(dim=-1)
        attended = before + own.out_lin((maps @ value).transpose(1, 2).flatten(2))
        assert_close([after, run.maps[layer]], [attended + base.ffns[layer](base.layer_norm2[layer](attended)), maps])


@pytest.mark.parametrize(
    ("architecture", "settings", "field"),
    [
        ("xmod", {"default_language": None}, "default_language"),
        ("mpnet", {"relative_attention_num_buckets": 16}, "relative_attention_num_buckets"),
        ("xlm", {"causal": True}, "causal"),
        ("eurobert", {"num_key_value_heads": 3}, "num_key_value_heads"),
        ("deberta", {"talking_head": True}, "talking_head"),
        ("mobilebert", {"key_query_shared_bottleneck": False}, "key_query_shared_bottleneck"),
    ],
)
def test_a_setting_that_is_not_hosted_is_named(
    architecture: str, settings: Mapping[str, Any], field: str, tmp_path: Path
) -> None:
    folder = write_checkpoint(architecture, tmp_path / "model", settings=settings)
    with pytest.raises(FailedPrecondition, match=field):
        check_source(inspect(folder))
