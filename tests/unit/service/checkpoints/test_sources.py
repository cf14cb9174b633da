"""What can be hosted is recognised, and what can't is refused by name, before anything large is read."""

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from bertscope_service.checkpoints import hub as hub_files
from bertscope_service.checkpoints.sources import HUB_FILES, Progress, Stage, inspect, locate
from bertscope_service.errors import FailedPrecondition, LoadAbandonedError, PermissionDenied, ServiceError, Unavailable
from huggingface_hub import errors as hub
from huggingface_hub.utils import filter_repo_objects


def ignore(_: Progress) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def shard(folder: Path, *names: str) -> None:
    (folder / "model.safetensors").unlink(missing_ok=True)
    index = {"weight_map": {f"weight{number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def refusal(folder: Path, reason: str = "SOURCE_UNREADABLE") -> str:
    with pytest.raises(FailedPrecondition) as caught:
        inspect(folder)
    assert caught.value.reason == reason
    assert "\n" not in caught.value.message
    return caught.value.message


def test_shards_come_in_the_order_of_their_names_each_once(folder: Path) -> None:
    shard(folder, "b.safetensors", "a.safetensors", "b.safetensors")
    (folder / "a.safetensors").write_bytes(b"first")
    (folder / "b.safetensors").write_bytes(b"second")
    source = inspect(folder)
    assert [path.name for path in source.weight_files] == ["a.safetensors", "b.safetensors"]
    progress: list[Progress] = []
    assert source.digest(progress.append) == f"sha256:{hashlib.sha256(b'firstsecond').hexdigest()}"
    assert [(step.done_bytes, step.total_bytes, step.detail) for step in progress] == [
        (5, 11, "a.safetensors"),
        (11, 11, "b.safetensors"),
    ]
    assert {step.stage for step in progress} == {Stage.READING}


def written(name: str, content: bytes | str) -> Callable[[Path], object]:
    """Writes a file of a folder."""
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def renamed(name: str) -> Callable[[Path], object]:
    """Gives the weights another name."""
    return lambda folder: (folder / "model.safetensors").rename(folder / name)


def indexed(text: str) -> Callable[[Path], object]:
    """Writes an index of shards in place of the weights."""

    def spoil(folder: Path) -> None:
        shard(folder)
        (folder / "model.safetensors.index.json").write_text(text)

    return spoil


def pickled(content: bytes) -> Callable[[Path], object]:
    """Writes pickle under the name of a shard."""

    def spoil(folder: Path) -> None:
        shard(folder, "model-1.safetensors")
        (folder / "model-1.safetensors").write_bytes(content)

    return spoil


UNREADABLE, UNSUPPORTED, PICKLE = "SOURCE_UNREADABLE", "ARCHITECTURE_UNSUPPORTED", "PICKLE_REFUSED"
BROKEN: list[tuple[Callable[[Path], object], str, str]] = [
    (lambda folder: (folder / "config.json").unlink(), UNREADABLE, "{folder}/config.json does not exist"),
    *((written("config.json", text), UNREADABLE, "{folder}/config.json") for text in ("{", "[1]", b"\xff\xfe")),
    (written("config.json", '{"model_type": "gpt2"}'), UNSUPPORTED, "albert, bert, camembert, "),
    (written("config.json", '{"model_type": 5}'), UNSUPPORTED, "model_type 5"),
    (written("config.json", '{"model_type": "bert", "is_decoder": true}'), UNSUPPORTED, "bertscope hosts encoders"),
    (lambda folder: (folder / "model.safetensors").unlink(), UNREADABLE, "bertscope reads safetensors only"),
    *((renamed(name), PICKLE, "convert them to model.safetensors") for name in ("pytorch_model.bin", "c.pkl")),
    (pickled(b"PK\x03\x04" + bytes(60)), PICKLE, "whatever its name says"),
    (pickled(b"\x80\x02\x8a\nl" + bytes(60)), PICKLE, "{folder}/model-1.safetensors"),
    (pickled(pickle.dumps(["x"], 5)), PICKLE, "whatever its name says"),
    *((indexed(text), UNREADABLE, "model.safetensors.index.json can't be read") for text in ("{", "[]", '{"weight_map": []}')),
    (lambda folder: shard(folder, "model-1.safetensors"), UNREADABLE, "{folder}/model-1.safetensors"),
]


@pytest.mark.parametrize(("spoil", "reason", "said"), BROKEN)
def test_a_broken_folder_is_refused(folder: Path, spoil: Callable[[Path], object], reason: str, said: str) -> None:
    spoil(folder)
    assert said.format(folder=folder) in refusal(folder, reason)


def test_no_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "x") == f"the server has no folder {tmp_path / 'x'}"


def test_safetensors_whose_length_looks_like_pickle(folder: Path) -> None:
    header = b"{" + b" " * (0x0280 - 2) + b"}"
    content = len(header).to_bytes(8, "little") + header
    assert content.startswith(b"\x80\x02")
    (folder / "model.safetensors").write_bytes(content)
    assert inspect(folder).weight_bytes == len(content)


@pytest.mark.parametrize("name", ["../secret.safetensors", "sub/../../secret.safetensors", ".."])
def test_an_index_that_leaves_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.safetensors").write_bytes(b"x")
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    (inner / "config.json").write_text('{"model_type": "bert"}')
    shard(inner, name)
    assert "model.safetensors.index.json" in refusal(inner)


def test_a_folder_is_located_by_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate(str(folder), "", ignore).folder == folder
    monkeypatch.chdir(folder.parent)
    assert locate(folder.name, "", ignore).folder == Path(folder.name)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert locate(f"~/{folder.name}", "", ignore).folder == folder


def test_errors_name_a_home_as_the_caller_did(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    with pytest.raises(FailedPrecondition, match=rf"^in ~/{folder.name}/x$"), locate(f"~/{folder.name}", "", ignore).named():
        raise FailedPrecondition(f"in {folder}/x", "X")
    (folder / "config.json").unlink()
    with pytest.raises(FailedPrecondition) as caught:
        locate(f"~/{folder.name}", "", ignore)
    assert caught.value.message.startswith(f"~/{folder.name}/config.json does not exist")
    assert str(folder) not in str(caught.value.metadata) + str(caught.value)


def test_the_embedded_model_is_located_by_its_name() -> None:
    source = locate("bertscope-mini", "", ignore)
    assert source.architecture == "bert"
    assert source.weight_bytes > 1_000_000


NEVER_ASKED = [
    *((source, "", None, "no folder") for source in ("./nowhere", "~/nowhere")),
    *((source, "", "source", "OWNER/NAME") for source in ("a/b/c", "a b", "a//b", "-a", "a\nb")),
    *(("org/name", name, "revision", "a branch, a tag or a commit") for name in ("..", "a/../b", "/etc/x", "a b", "v1\n")),
]


@pytest.mark.parametrize(("source", "revision", "field", "said"), NEVER_ASKED)
def test_paths_and_malformed_ids_are_never_asked_of_the_hub(
    source: str, revision: str, field: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    with pytest.raises(ServiceError, match=said) as caught:
        locate(source, revision, ignore)
    assert getattr(caught.value, "field", None) == field


@pytest.mark.parametrize("revision", ["refs/pr/1", "feature/a_b-c"])
def test_usual_revisions(revision: str, download: dict[str, Any]) -> None:
    locate("org/name", revision, ignore)
    assert download["revision"] == revision


RENAMED = [
    ("/home/me/x can't", "~/x can't"),
    ("in '/home/me', /home/me.", "in '~', ~."),
    ("/home/meadow", "/home/meadow"),
    ("/mnt/home/me", "/mnt/home/me"),
    ("/home/me-too /home/me.txt", "/home/me-too /home/me.txt"),
]


@pytest.mark.parametrize(("message", "becomes"), RENAMED)
def test_only_whole_paths_are_renamed(message: str, becomes: str) -> None:
    error = FailedPrecondition(message, "X", source=message)
    error.rename("/home/me", "~")
    assert (error.message, error.metadata["source"], str(error)) == (becomes, becomes, becomes)


def made(kind: Any) -> Any:
    if issubclass(kind, hub.HfHubHTTPError):
        answer: Any = SimpleNamespace(status_code=403, headers={}, request=None)
        return kind("inner text\nin lines", response=answer)
    return kind("inner text\nin lines")


HUB_ERRORS: list[tuple[type[Exception], type[ServiceError], str]] = [
    (hub.GatedRepoError, FailedPrecondition, "accept its terms"),
    (hub.RepositoryNotFoundError, FailedPrecondition, "the hub has no model org/name"),
    (hub.RevisionNotFoundError, FailedPrecondition, "no revision 'v9' of org/name"),
    (hub.OfflineModeIsEnabled, Unavailable, "is not in the server's cache"),
    (hub.LocalEntryNotFoundError, Unavailable, "is not in the server's cache"),
    (hub.HfHubHTTPError, Unavailable, "downloading org/name@v9 from the hub failed"),
    (ConnectionError, Unavailable, "downloading org/name@v9 from the hub failed"),
    (TimeoutError, Unavailable, "downloading org/name@v9 from the hub failed"),
    (OSError, FailedPrecondition, "storing org/name@v9 failed"),
]


@pytest.mark.parametrize(("kind", "becomes", "words"), HUB_ERRORS, ids=lambda value: getattr(value, "__name__", None))
def test_what_the_hub_says_becomes_an_error_that_names_the_step(
    kind: type[Exception], becomes: type[ServiceError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise made(kind)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ServiceError) as caught:
        locate("org/name", "v9", ignore)
    assert type(caught.value) is becomes
    assert words in caught.value.message


@pytest.mark.parametrize(("offline", "words"), [(True, "HF_HUB_OFFLINE"), (False, "can't be reached")])
def test_offline_and_unreachable_are_told_apart(offline: bool, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise hub.LocalEntryNotFoundError("x")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    with pytest.raises(Unavailable, match=words):
        locate("org/name", "", ignore)


@pytest.fixture
def download(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A hub that calls its progress bar as the real one does; what it was asked for."""
    asked: dict[str, Any] = {}

    def snapshot(repository: str, *, tqdm_class: Callable[..., Any], **options: Any) -> str:
        asked.update(options, repository=repository)
        files = tqdm_class(total=2, unit="it", desc="Fetching")
        files.update(1)
        size = tqdm_class(total=100, initial=10, unit="B", unit_scale=True, desc="model.safetensors")
        size.update(40)
        size.update(50)
        files.update(1)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    return asked


def test_a_download_reports_bytes_and_never_asks_for_pickle_or_code(download: dict[str, Any], folder: Path) -> None:
    progress: list[Progress] = []
    assert locate("org/name", "v1", progress.append).folder == folder
    assert (download["repository"], download["revision"]) == ("org/name", "v1")
    allowed = download["allow_patterns"]
    assert "*.safetensors" in allowed
    assert not [
        name for name in ("pytorch_model.bin", "modeling.py", "model.pt", "a.pkl") if any(map(PurePath(name).match, allowed))
    ]
    assert [(step.stage, step.done_bytes, step.total_bytes) for step in progress] == [
        (Stage.RESOLVING, 0, 0),
        (Stage.DOWNLOADING, 50, 100),
        (Stage.DOWNLOADING, 100, 100),
    ]


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model in the hub's cache, laid out as the hub's library does it."""
    blobs, snapshot = tmp_path / "models--org--name" / "blobs", tmp_path / "models--org--name" / "snapshots" / "abc"
    for made in (blobs, snapshot):
        made.mkdir(parents=True)
    for number, (name, content) in enumerate(
        {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"weights"}.items()
    ):
        (blobs / str(number)).write_bytes(content)
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
    return snapshot


def test_a_snapshot_has_no_links_to_elsewhere(snapshot: Path) -> None:
    (snapshot.parents[2] / "secret").write_text("{}")
    (snapshot / "tokenizer.json").symlink_to(snapshot.parents[2] / "secret")
    with pytest.raises(PermissionDenied, match=r"^org/name/tokenizer.json leads out of"):
        locate("org/name", "", ignore)


def test_a_download_is_abandoned_by_raising(download: dict[str, Any]) -> None:
    def stop(progress: Progress) -> None:
        if progress.stage is Stage.DOWNLOADING:
            raise LoadAbandonedError

    with pytest.raises(LoadAbandonedError):
        locate("org/name", "", stop)


def test_of_subfolders_the_hub_gives_the_declared_pooling_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["config.json", "model.safetensors", "tokenizer.json", "modules.json", "1_Pooling/config.json"]
    others = ["2_Dense/model.safetensors", "2_Dense/config.json", "onnx/model.onnx", "tokenizers/tokenizer.json", "a/b.model"]

    def snapshot(_: str, *, allow_patterns: list[str], ignore_patterns: list[str], **__: Any) -> str:
        kept = filter_repo_objects([*wanted, *others], allow_patterns=allow_patterns, ignore_patterns=ignore_patterns)
        assert list(kept) == wanted
        return "found"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert hub_files.download("owner/name", "", HUB_FILES, lambda *_: None) == Path("found")
