"""Asks all claims of two panels of random models: none that takes training may hold.

Prints by how many models of each panel a claim is satisfied, and by how many its tests
alone are, without the question whether the model predicts words. Half of the models have a masked-LM head and are asked the
claims that need one; the others, which can't be asked what they predict, are asked the rest: wide ones, whose probes take
minutes, about attention alone. Claims were made by the panel "choice"; the panel "check" has other shapes, scales and seeds.
Claims about two models are asked of each and a copy whose weights differ a little.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import bertscope
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_workbench.command.views.progress import asking_claims
from bertscope_workbench.papers.claim import Claim
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.kept_results import KeptResults
from bertscope_workbench.papers.run import Compared, run_claims
from bertscope_workbench.papers.verdicts import DISAGREE, HOLDS, NOT_ASKED, JudgedClaim, conclude, judge
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoTokenizer

from benchmarks.lib.options import CLAIMS, option
from benchmarks.lib.report import Report, Table
from benchmarks.lib.serving import serving

Shapes = Sequence[tuple[int, int]]
"""Layers and dimensions of models."""
WIDTH = 16
"""Dimensions of a head."""
NARROW = 128
"""Models of more dimensions are asked about attention alone."""
TUNED = 0.1
"""How far the weights of a copy lie from the model's, as a share of their standard deviation."""
LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class Member:
    """A random model."""

    family: str
    """"bert" or "distilbert"."""
    layers: int
    dimensions: int
    spread: float
    """Standard deviation of the weights, BERT's being .02."""
    seed: int
    head: bool
    """True for one with a masked-LM head."""

    @property
    def name(self) -> str:
        """Its name on the server."""
        head = "" if self.head else "-headless"
        return f"{self.family}-{self.layers}x{self.dimensions}-{self.spread * 100:02.0f}-seed-{self.seed}{head}"

    def asked(self, claim: Claim) -> bool:
        """Returns whether the panel asks it this claim."""
        if self.head or "cloze" in claim.needs:
            return self.head and "cloze" in claim.needs
        return self.dimensions <= NARROW or "attention" in claim.needs

    def write(self, folder: Path, tuned: float = 0.0) -> Path:
        """Writes the checkpoint, with the embedded model's tokenizer; `tuned` is how far its weights are from the model's."""
        torch.manual_seed(self.seed)
        path = folder / (f"{self.name}-tuned" if tuned else self.name)
        AutoTokenizer.from_pretrained(EMBEDDED_FOLDER).save_pretrained(path)
        inner = 4 * self.dimensions
        config = AutoConfig.for_model(
            self.family,
            num_hidden_layers=self.layers,
            hidden_size=self.dimensions,
            num_attention_heads=self.dimensions // WIDTH,
            initializer_range=self.spread,
            **{"intermediate_size": inner} if self.family == "bert" else {"hidden_dim": inner},
        )
        model = (AutoModelForMaskedLM if self.head else AutoModel).from_config(config)
        with torch.no_grad():
            for weights in model.parameters():
                weights.add_(torch.randn_like(weights), alpha=tuned * self.spread)
        model.save_pretrained(path)
        return path


def panel(shapes: Shapes, spreads: Sequence[float], seed: int, wide: Shapes) -> list[Member]:
    """Returns wide models, the first with the first scale and so on, and two others of each family and scale, one with a head:
    the shapes in turn, and five seeds from one on."""
    members = [
        Member("bert", layers, dimensions, spread, seed, head=False)
        for (layers, dimensions), spread in zip(wide, spreads, strict=False)
    ]
    for number, (spread, family, head) in enumerate(product(spreads, ("bert", "distilbert"), (True, False))):
        layers, dimensions = shapes[(number + number // len(shapes)) % len(shapes)]
        members.append(Member(family, layers, dimensions, spread, seed + number % 5, head))
    return members


PANELS = {
    "choice": panel([(3, 128), (4, 32), (4, 64), (6, 48)], (0.2, 0.15, 0.08, 0.05, 0.02), 0, [(6, 384), (4, 384)]),
    "check": panel([(3, 64), (4, 48), (5, 96), (6, 32)], (0.18, 0.13, 0.1, 0.06, 0.03), 100, [(4, 256), (3, 512)]),
}
OPTIONS = (
    CLAIMS,
    option("--panel", "ask this panel alone; repeatable", action="append", choices=PANELS),
    option("--members", "ask only so many models of each panel", type=int),
    option("--kept", "keep the answers in this file, and take those that it has", type=Path),
)


@dataclass(frozen=True)
class JudgedMember:
    """The claims of a model, judged."""

    member: Member
    claims: tuple[JudgedClaim, ...]


def by_tests(claim: JudgedClaim) -> str:
    """Returns the verdict that a claim's tests alone give, whether or not the model predicts words."""
    tests = [each if each.measured is None else judge(each.test, each.measured) for each in claim.tests]
    return conclude(claim.claim, tests).verdict


def ask(
    client: bertscope.Client, members: Sequence[Member], claims: Sequence[Claim], kept: KeptResults | None = None
) -> list[JudgedMember]:
    """Asks some models that `checkpoints` wrote their claims; `kept` has the answers of an earlier run."""
    found = []
    with asking_claims() as show:
        for member in members:
            copy = f"{member.name}-tuned"
            compared = Compared(against=copy, fine_tuned=copy, languages=LANGUAGES)
            primer = run_claims(
                client, [*filter(member.asked, claims)], models=[member.name], compared=compared, kept=kept, on_progress=show
            )
            found.append(JudgedMember(member, primer.models[0].claims))
    return found


def checkpoints(members: Sequence[Member], folder: Path) -> list[str]:
    """Writes the models, each with its copy, and returns them as a server's `--model` takes them."""
    paths = [member.write(folder, tuned) for member in members for tuned in (0.0, TUNED)]
    return [f"{path.name}={path}" for path in paths]


def findings(found: dict[str, list[JudgedMember]], claims: Sequence[Claim]) -> Table:
    """Returns how many models of each panel satisfy a claim that takes training, and by its tests alone, of those asked."""
    headings = ("section", "claim", *(f"{name}: {what}" for name in found for what in ("holds", "by its tests alone")))
    rows = [
        (claim.section, claim.name, *(cell for asked in found.values() for cell in _cells(claim.name, asked)))
        for claim in claims
        if claim.learned
    ]
    return Table("Random models that satisfy a claim", headings, rows)


def _cells(claim: str, asked: Sequence[JudgedMember]) -> tuple[str, str]:
    judged = [each for one in asked for each in one.claims if each.claim.name == claim and each.verdict != NOT_ASKED]
    holds, alone = sum(each.verdict == HOLDS for each in judged), sum(by_tests(each) == HOLDS for each in judged)
    return f"{holds} of {len(judged)}", str(alone)


def faults(found: dict[str, list[JudgedMember]]) -> list[str]:
    """Returns the claims that take training and hold, also in part, each with the model."""
    return [
        f"{claim.claim.name} ({one.member.name})"
        for asked in found.values()
        for one in asked
        for claim in one.claims
        if claim.claim.learned and claim.verdict in (HOLDS, DISAGREE)
    ]


def report(options: Namespace) -> Report:
    """Returns the table; a random model that satisfies a claim that takes training is a fault."""
    claims = read_claims(only=options.only or ())
    kept = KeptResults(options.kept, resume=True)
    found = {}
    for name in options.panel or PANELS:
        members = PANELS[name][: options.members]
        with tempfile.TemporaryDirectory() as folder:
            flags = [f"--model={each}" for each in checkpoints(members, Path(folder))]
            with serving("--runtime=torch", *flags) as server, bertscope.Client(server.target) as client:
                found[name] = ask(client, members, claims, kept)
    verdicts = {
        name: {one.member.name: {each.claim.name: each.verdict for each in one.claims} for one in asked}
        for name, asked in found.items()
    }
    return Report([findings(found, claims)], {"verdicts": verdicts}, faults=faults(found))
