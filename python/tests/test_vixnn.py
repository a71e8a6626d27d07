"""The training of ViXNN: what it draws, what it refuses, and that a stop changes nothing."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from research.vixnn import data, export
from research.vixnn.drawn import draw
from research.vixnn.model import BITS, DESCRIPTORS, SIZES, Vixnn, binarize, macs_per_pixel, mask
from research.vixnn.train import Recipe, Training, kept, run, target

POOL = np.stack([draw(np.random.default_rng(index), data.SIDE) for index in range(40)])


def trained(steps: int, file: Path, stop: int | None = None) -> Vixnn:
    """A short training, stopped and gone on with at step `stop`."""
    recipe = Recipe("fast", "mdc:0.3", steps, 1e-3)
    if stop is not None:
        first = Training(recipe, POOL)
        while first.step < stop:
            first.advance()
        first.save(file)
    return run(Training(recipe, POOL), file, lambda _: None)


def test_a_training_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole, resumed = trained(6, tmp_path / "whole.pt"), trained(6, tmp_path / "resumed.pt", stop=3)
    for (name, a), b in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_state_of_another_recipe_is_refused(tmp_path: Path) -> None:
    trained(2, tmp_path / "state.pt")
    with pytest.raises(SystemExit, match="another recipe"):
        Training(Recipe("fast", "svc", 2, 1e-3), POOL).load(tmp_path / "state.pt")


def test_drop_patterns() -> None:
    rng = np.random.default_rng(1)
    svc = kept("svc", rng, 4000)
    assert (np.diff(svc, axis=1) <= 0).all() and svc[:, 0].all()
    assert abs(svc.sum(1).mean() - (DESCRIPTORS + 1) / 2) < 0.1
    for probability in (0.0, 0.1, 0.3, 0.5):
        mdc = kept(f"mdc:{probability}", rng, 4000)
        assert mdc.any(1).all()
        assert abs(1 - mdc.mean() - probability) < 0.02


def test_kept_descriptors_are_scaled_and_the_others_unknown() -> None:
    there = torch.zeros(1, DESCRIPTORS)
    there[0, [1, 4]] = 1
    factor = mask(there).view(DESCRIPTORS, BITS)
    assert (factor[[1, 4]] == DESCRIPTORS / 2).all() and factor.sum() == 2 * BITS * DESCRIPTORS / 2
    assert mask(there, scaled=False).max() == 1
    assert not mask(torch.zeros(1, DESCRIPTORS)).any()


def test_the_binariser_rounds_by_chance_in_training_and_by_sign_otherwise() -> None:
    waist = torch.full((1, 1000), 0.5)
    share = (binarize(waist, torch.rand(1, 1000)) > 0).float().mean()
    assert abs(float(share) - (1 + np.tanh(0.5)) / 2) < 0.05
    assert torch.equal(binarize(torch.tensor([-0.1, 0.0, 2.0]), None), torch.tensor([-1.0, 1.0, 1.0]))


def test_fast_is_within_its_budget() -> None:
    assert all(macs * 1280 * 720 <= 1.7e9 for macs in macs_per_pixel(SIZES["fast"]))


def test_a_file_holds_the_network_it_was_written_from(tmp_path: Path) -> None:
    network = export.halved(Vixnn("fast"))
    export.export(network, "fast-x", Recipe("fast", "svc", 1, 1e-3), tmp_path)
    back = load_file(tmp_path / "fast-x.safetensors")
    assert all(torch.equal(back[name].float(), value) for name, value in network.state_dict().items())
    assert not list(tmp_path.glob("*.part"))


def test_the_same_network_is_the_same_file(tmp_path: Path) -> None:
    network = export.halved(Vixnn("fast"))
    files = []
    for _ in range(4):
        export.export(network, "fast-x", Recipe("fast", "svc", 1, 1e-3), tmp_path)
        files.append((tmp_path / "fast-x.safetensors").read_bytes())
    assert len(set(files)) == 1


def test_a_test_picture_is_never_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is called: sources are known by their digests."""
    for folder in ("images/kodak", "video/cif-classics", "mine"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("images/kodak/a.png", "video/cif-classics/b.mp4", "mine/c.png"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(data, "SOURCES", [data.Source("mine/c.png", "ours")])
    assert list(data.check_sources(tmp_path)) == ["mine/c.png"]
    shutil.copy(tmp_path / "video/cif-classics/b.mp4", tmp_path / "mine/c.png")
    with pytest.raises(SystemExit, match=r"test file b\.mp4"):
        data.check_sources(tmp_path)


def test_few_descriptors_may_be_trained_to_show_less() -> None:
    picture = torch.rand(2, 3, 16, 16)
    there = torch.ones(2, DESCRIPTORS)
    there[0, 4:] = 0
    assert target(picture, there, "same") is picture
    grey, levels = target(picture, there, "grey"), target(picture, there, "levels")
    assert torch.equal(grey[0, 0], grey[0, 2]) and torch.equal(grey[1], picture[1])
    assert len(levels[0].unique()) == 4 and torch.equal(levels[1], picture[1])
