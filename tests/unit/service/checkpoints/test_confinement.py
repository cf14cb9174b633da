"""What callers may have loaded, and written to, lies in the roots that the operator named, however it is spelled or linked."""

import os
from pathlib import Path

import pytest
from bertscope_service.checkpoints.confinement import ANYWHERE, Confinement
from bertscope_service.checkpoints.sources import inspect_onnx
from bertscope_service.errors import FailedPrecondition, PermissionDenied
from bertscope_service.security.model_sources import SourcePolicy
from bertscope_service.settings import Settings
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

SECRET = "not-for-callers"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """root/model is a model's folder, outside/model another one, and links lead to and fro."""
    base = tmp_path_factory.mktemp("place")
    for folder in ("root/model", "root/deeper/model", "outside/model", "rootless"):
        (base / folder).mkdir(parents=True)
        (base / folder / "config.json").write_text("{}")
    (base / "outside" / SECRET).write_text(SECRET)
    (base / "root" / "out").symlink_to(base / "outside")
    (base / "root" / "round").symlink_to("round")
    (base / "root" / "alias").symlink_to("model")
    (base / "other").symlink_to(base / "root")
    return base


@pytest.fixture
def policy(place: Path) -> SourcePolicy:
    return SourcePolicy((place / "root",), ("google-bert/*", "org/name"))


def refusal(policy: SourcePolicy, source: str) -> str:
    with pytest.raises(PermissionDenied) as caught:
        policy.confine(source)
    assert caught.value.reason == "SOURCE_NOT_ALLOWED"
    return caught.value.message


INSIDE = ["root/model", "root/model/", "root/model/model.onnx", "root", "root/alias", "other/model"]
INSIDE += ["root/nothing/yet", "outside/../root/model", "root/./deeper//model"]
OUTSIDE = ["outside/model", "root/../outside/model", "root/out/model", "rootless", "", "/", "nowhere"]
OUTSIDE += [
    "root/round/model",
    "root/model/../../outside/model",
    "root/alias/../../outside",
    "root/\0",
    "root/" + "../" * 99 + "etc",
]


@pytest.mark.parametrize("path", INSIDE)
def test_a_path_within_a_root_is_allowed_however_it_is_spelled(policy: SourcePolicy, place: Path, path: str) -> None:
    assert policy.confine(f"{place}/{path}") == Confinement((place / "root",))


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_out_of_the_roots_is_refused(policy: SourcePolicy, place: Path, path: str) -> None:
    source = f"{place}/{path}"
    message = refusal(policy, source)
    assert message.startswith(f"source {source!r} may not be loaded: ")
    assert "--model-root" in message


@pytest.mark.parametrize("source", ["~", "~/x", "~nobody-has-this-name/x", "~root/.ssh", "./x", "../x", "..", "model.onnx"])
def test_relative_paths_and_homes_are_paths_too(policy: SourcePolicy, source: str) -> None:
    refusal(policy, source)


HUB = [
    ("google-bert/bert-base-uncased", True),
    ("org/name", True),
    ("org/names", False),
    ("Org/name", False),
    ("evil/google-bert/x", False),
    ("google-bert", False),
]


@pytest.mark.parametrize(("source", "allowed"), HUB)
def test_hub_ids_match_a_pattern(policy: SourcePolicy, source: str, allowed: bool) -> None:
    if allowed:
        policy.confine(source)
    else:
        assert "--model-hub" in refusal(policy, source)


@pytest.mark.parametrize("revision", ["refs/pr/7", "pr/7", "REFS/PR/7"])
def test_a_pull_request_is_not_its_owners(policy: SourcePolicy, revision: str) -> None:
    policy.confine("org/name", "release/1.0")
    with pytest.raises(PermissionDenied, match="which anybody may write") as caught:
        policy.confine("org/name", revision)
    assert caught.value.reason == "SOURCE_NOT_ALLOWED"
    SourcePolicy(trusting=True).confine("org/name", revision)


def test_what_is_not_configured_is_refused(place: Path) -> None:
    assert "no hub ids" in refusal(SourcePolicy((place / "root",), ()), "org/name")
    assert "no folders" in refusal(SourcePolicy((), ("org/*",)), str(place / "root" / "model"))
    for policy in (SourcePolicy((place,)), SourcePolicy((), ("x",)), SourcePolicy()):
        assert policy.confine("bertscope-mini") == ANYWHERE


@pytest.mark.parametrize("host", ["127.8.0.1", "localhost"])
def test_without_settings_only_this_machine_may_load_what_it_likes(host: str, place: Path) -> None:
    policy = SourcePolicy.of(Settings(host=host))
    assert policy.confine(str(place / "outside" / "model")) == ANYWHERE
    policy.check_folder(place / "outside" / "new")


@pytest.mark.parametrize("host", ["0.0.0.0", "server.example.org"])
def test_without_settings_others_may_load_nothing(host: str, place: Path) -> None:
    policy = SourcePolicy.of(Settings(host=host))
    for source in (str(place / "root" / "model"), "google-bert/bert-base-uncased", "~"):
        assert "--model-root FOLDER or --model-hub PATTERN" in refusal(policy, source)
    policy.check_folder(None)
    with pytest.raises(PermissionDenied):
        policy.check_folder(place / "root" / "new")


@pytest.mark.parametrize("path", ["root/new", "root/deeper/new/one", "other/new"])
def test_models_are_saved_below_a_root(policy: SourcePolicy, place: Path, path: str) -> None:
    policy.check_folder(place / path)


@pytest.mark.parametrize("path", ["root", "root/..", "root/../outside/new", "root/out/new", "root/out", "outside/new", "new"])
def test_models_are_saved_nowhere_else(policy: SourcePolicy, place: Path, path: str) -> None:
    with pytest.raises(PermissionDenied, match="nothing may be saved") as caught:
        policy.check_folder(place / path)
    assert caught.value.reason == "SOURCE_NOT_ALLOWED"


PARTS = st.sampled_from(
    [*("..", ".", "", "/", "~", "root", "model", "deeper", "out", "alias", "round", "other"), "outside", "\0"]
)


@budget(max_examples=60, deadline=None, derandomize=True, database=None)
@given(parts=st.lists(PARTS, max_size=9))
def test_whatever_passes_is_inside(place: Path, parts: list[str]) -> None:
    source = f"{place}/{'/'.join(parts)}"
    if Confinement((place / "root",)).holds(Path(source)):
        assert os.path.commonpath([os.path.realpath(source), place / "root"]) == str(place / "root")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    folder = tmp_path / "root" / "model"
    (folder / "onnx").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.parametrize("name", ["tokenizer.json", "model-00001-of-00002.safetensors", "onnx/model.onnx", ".hidden"])
def test_a_link_to_a_file_outside_is_refused_wherever_it_lies(model: Path, name: str) -> None:
    (model / name).symlink_to(model.parents[1] / "secret")
    with pytest.raises(PermissionDenied, match="put the file itself there") as caught:
        Confinement((model.parent,)).check(model)
    assert str(model / name) in caught.value.message
    assert "secret" not in caught.value.message
    ANYWHERE.check(model)


def test_a_link_to_a_folder_outside_is_refused_unread(model: Path) -> None:
    (model / "chat").symlink_to(model.parents[1])
    with pytest.raises(PermissionDenied):
        Confinement((model.parent,)).check(model)


def test_links_within_the_roots_are_followed(model: Path) -> None:
    (model / "blobs").mkdir()
    (model / "blobs" / "1").write_text("{}")
    (model / "tokenizer.json").symlink_to("blobs/1")
    (model / "gone").symlink_to("nothing")
    Confinement((model.parent,)).check(model)


def test_nothing_is_said_of_the_folder_above_the_roots(model: Path) -> None:
    """An ONNX file finds its config one folder up, unless that is none of its business."""
    (model / "onnx" / "model.onnx").touch()
    messages = []
    for config in (None, "{}"):
        if config:
            (model / "config.json").write_text(config)
        else:
            (model / "config.json").unlink()
        with pytest.raises(FailedPrecondition) as caught:
            inspect_onnx(model / "onnx" / "model.onnx", Confinement((model / "onnx",)))
        messages.append(caught.value.message)
    assert messages[0] == messages[1]


@pytest.mark.parametrize("confined", [True, False])
def test_a_pipe_is_no_file(model: Path, confined: bool) -> None:
    """Where anything may be loaded, subfolders are not looked at: a home folder may hold any number of sockets."""
    confinement = Confinement((model.parent,)) if confined else ANYWHERE
    os.mkfifo(model / "onnx" / "pipe")
    if confined:
        with pytest.raises(FailedPrecondition, match="is a pipe"):
            confinement.check(model)
        (model / "onnx" / "pipe").unlink()
    confinement.check(model)
    os.mkfifo(model / "tokenizer.json")
    with pytest.raises(FailedPrecondition, match="is a pipe"):
        confinement.check(model)
