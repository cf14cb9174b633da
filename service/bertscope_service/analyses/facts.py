"""Facts that a model may know: ranks of objects in templates with a subject (LAMA, Petroni et al. 2019).

Each distinct sentence runs once, whatever the number of facts and templates that make it. A rank is 1 + the number of choices
that are strictly likelier, and the best of several right objects counts. A fact is asked in all of its templates or in none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertscope_service import cancellation
from bertscope_service.analyses.cloze import MAX_PREDICTIONS
from bertscope_service.analyses.fact_choices import Choices, EntryChoices, PhraseChoices, Skipped, Standing
from bertscope_service.analyses.fact_queries import Fact, FactQuery, Scoring
from bertscope_service.analyses.texts import GROUP
from bertscope_service.checkpoints.mask_names import MASK
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_SCORES = 20_000_000
"""Maximum number of scores of candidates that a query brings to the host; they take 80 MB."""

ANSWER_BYTES, PREDICTION_BYTES = 64, 32


@dataclass(slots=True, eq=False)
class Question:
    """A distinct sentence. The mask of its object is number `mask` of `masks`; `first` is the fact that it was made for.

    right: the columns of right objects, by their numbers. begin, end: its rows among those of the plan.
    """

    text: str
    choices: Choices
    first: int
    mask: int = 0
    masks: int = 1
    right: dict[int, int] = field(default_factory=dict)
    tokenized: TokenizedText | None = None
    begin: int = 0
    end: int = 0
    standing: Standing | None = None

    def column(self, right: int) -> int:
        """Returns the column of a right object, which it adds."""
        return self.right.setdefault(right, len(self.right))


@dataclass(frozen=True, slots=True)
class _FactQuestion:
    """A question about one fact: the right objects that can be found, with their indexes in the fact."""

    template: int
    prime: int | None
    question: Question
    objects: tuple[tuple[int, int], ...]
    prior: Question | None = None


@dataclass(frozen=True, slots=True)
class FactAnswer:
    """The answer to one template; see bertscope.v1.FactAnswer. `object` is the index of the right object that counts; it and
    its rank are None if decoding gave none."""

    template: int
    prime: int | None
    rank: int | None
    object: int | None
    log: float | None
    prior: tuple[int, float] | None
    top: Sequence[tuple[str, float]]


class FactPlan:
    """The rows for a query, and the conversion of their results to answers.

    skipped: the reason of each fact that is not asked, by its index. Raises InvalidArgument for a text with a mask, and for a
    query with too many tokens, predictions or scores.
    """

    def __init__(self, query: FactQuery, tokenizer: TextTokenizer) -> None:
        self.query, self.tokenizer = query, tokenizer
        self.skipped: dict[int, Skipped] = {}
        self.rows: list[tuple[TokenSequence, Observer]] = []
        self._choices: dict[tuple[int, str], Choices] = {}
        self._spelled: dict[str, dict[str, tuple[int, ...]]] = {}
        self._questions: dict[tuple[str, int, int], Question] = {}
        self._check_size()
        self._asked = [list(self._ask(index, fact)) for index, fact in enumerate(query.facts)]
        self._tokenize()
        self._leave_out()
        self._build_rows()

    def _check_size(self) -> None:
        """Checks the number of predictions, and the least number of tokens, before the work begins."""
        answers = sum(len(self.query.relations[fact.relation].templates) * (1 + len(fact.primes)) for fact in self.query.facts)
        if answers * self.query.top_k > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {answers * self.query.top_k} predictions, more than {MAX_PREDICTIONS}; ask in parts"
            )
            raise InvalidArgument("facts", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS)
        self._check_tokens(answers)
        self.answers = answers

    def _check_tokens(self, tokens: int) -> None:
        if tokens > self.query.max_row_tokens:
            most = self.query.max_row_tokens
            message = f"these facts and templates make more than {most} tokens of work; send fewer of them at a time"
            raise InvalidArgument("facts", message, "TOO_MANY_TOKENS", limit=most)

    def _ask(self, index: int, fact: Fact) -> Iterator[_FactQuestion]:
        """Yields the questions about a fact; notes the reason if one can't be asked, and ends there."""
        templates = self.query.relations[fact.relation].templates
        for prime in (None, *range(len(fact.primes))):
            for number, template in enumerate(templates):
                text, before = template.write(fact.subject, None if prime is None else fact.primes[prime])
                choices = self._choices_of(fact.relation, before)
                pieces = self._spell(before)
                found = [(place, choices.find(word, pieces[word])) for place, word in enumerate(fact.objects)]
                objects = tuple((place, right) for place, right in found if isinstance(right, int))
                if not objects:
                    reasons = [reason for _, reason in found if isinstance(reason, Skipped)]
                    self.skipped[index] = max(reasons, key=list(Skipped).index)
                    return
                question = self._question(text, choices, index)
                prior = None
                if self.query.prior and prime is None:
                    unknown, _ = template.write(MASK)
                    prior = self._question(unknown, choices, index, mask=int(template.subject_first), masks=2)
                yield _FactQuestion(number, prime, question, objects, prior)

    def _choices_of(self, relation: int, before: str) -> Choices:
        """Returns the choices of a relation after a character; relations without candidates share them."""
        candidates = self.query.relations[relation].candidates
        key = relation if candidates else -1, before
        if key not in self._choices:
            self._choices[key] = self._choose(candidates, before)
        return self._choices[key]

    def _choose(self, candidates: Sequence[str], before: str) -> Choices:
        query = self.query
        if query.scoring is Scoring.CANDIDATES:
            return PhraseChoices(self.tokenizer, candidates, before, query.top_k)
        return EntryChoices(self.tokenizer, query.entries, candidates or query.vocabulary, before, query.top_k)

    def _spell(self, before: str) -> dict[str, tuple[int, ...]]:
        """Returns the pieces of all right objects after a character."""
        if before not in self._spelled:
            words = list(dict.fromkeys(word for fact in self.query.facts for word in fact.objects))
            self._spelled[before] = dict(zip(words, self.tokenizer.all_pieces_in_context(words, before), strict=True))
        return self._spelled[before]

    def _question(self, text: str, choices: Choices, first: int, mask: int = 0, masks: int = 1) -> Question:
        cancellation.check()
        key = text, id(choices), mask
        if key not in self._questions:
            self._questions[key] = Question(text, choices, first, mask, masks)
        return self._questions[key]

    def _tokenize(self) -> None:
        """Tokenizes the questions of facts that are asked. Stops where they are too many tokens."""
        used = {id(q): q for i, asked in enumerate(self._asked) if i not in self.skipped for a in asked for q in _questions(a)}
        questions, tokens = list(used.values()), 0
        for begin in range(0, len(questions), GROUP):
            part = questions[begin : begin + GROUP]
            for question, text in zip(part, self.tokenizer.encode_all([(each.text,) for each in part]), strict=True):
                question.tokenized = text
                tokens += len(text)
                self._check_masks(question, text)
            self._check_tokens(tokens)

    def _check_masks(self, question: Question, text: TokenizedText) -> None:
        if list(text.sequence.ids).count(self.tokenizer.mask_id or 0) != question.masks:
            field = f"facts[{question.first}].subject"
            message = f"{field} makes another mask in a template; a question has one mask, for [Y]"
            raise InvalidArgument(field, message, "MASK_UNEXPECTED")

    def _leave_out(self) -> None:
        """Leaves out the facts with a question that is longer than the model reads."""
        for index, asked in enumerate(self._asked):
            if index not in self.skipped and any(self._too_long(question) for each in asked for question in _questions(each)):
                self.skipped[index] = Skipped.TOO_LONG
            if index in self.skipped:
                self._asked[index] = []

    def _too_long(self, question: Question) -> bool:
        return len(question.tokenized or ()) + question.choices.longest - 1 > self.tokenizer.max_tokens

    def _build_rows(self) -> None:
        """Adds the rows of the questions that are left."""
        for asked in self._asked:
            for each in asked:
                for question in _questions(each):
                    for _, right in each.objects:
                        question.column(right)
        tokens = scores = 0
        for question in self._questions.values():
            if question.right and question.tokenized is not None:
                sequence = question.tokenized.sequence
                position = [place for place, token in enumerate(sequence.ids) if token == self.tokenizer.mask_id][question.mask]
                tokens += self._add(question, sequence, position)
                scores += question.choices.scores + len(question.right)
                self._check_tokens(tokens)
                if scores > MAX_SCORES:
                    message = f"these facts make more than {MAX_SCORES} scores of candidates; send fewer of them at a time"
                    raise InvalidArgument("facts", message, "TOO_MANY_PREDICTIONS", limit=MAX_SCORES)
        self._scores = scores

    def _add(self, question: Question, sequence: TokenSequence, position: int) -> int:
        """Adds the rows of a question, whose object's mask is at `position`. Returns the number of their tokens."""
        rows = question.choices.rows(sequence, position, list(question.right))
        question.begin, question.end = len(self.rows), len(self.rows) + len(rows)
        self.rows += rows
        return sum(len(row) for row, _ in rows)

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, and of the scores on the host that it is made from."""
        return self.answers * (ANSWER_BYTES + self.query.top_k * PREDICTION_BYTES) + self._scores * 4

    @property
    def ranked_among(self) -> list[int]:
        """The most choices that facts of each relation were ranked among; 0 where none was asked."""
        sizes: dict[int, int] = defaultdict(int)
        for fact, asked in zip(self.query.facts, self._asked, strict=True):
            sizes[fact.relation] = max(sizes[fact.relation], *(each.question.choices.size for each in asked), 0)
        return [sizes[relation] for relation in range(len(self.query.relations))]

    @property
    def vocabulary_left_out(self) -> int:
        """The words of the query's vocabulary that are no single entry after a blank."""
        words = self.query.vocabulary
        return int((self.tokenizer.single_entries.find(words, " ") < 0).sum()) if words else 0

    def answer(self, results: Sequence[Any]) -> list[list[FactAnswer]]:
        """Converts the results of `rows` to the answers of each fact; none for one that was skipped.

        Raises FailedPrecondition for scores that are not finite.
        """
        for question in self._questions.values():
            if question.end:
                own = results[question.begin : question.end]
                question.standing = question.choices.read(own, list(question.right))
        return [[_answer(each) for each in asked] for asked in self._asked]


def _questions(asked: _FactQuestion) -> tuple[Question, ...]:
    return (asked.question,) if asked.prior is None else (asked.question, asked.prior)


def _answer(asked: _FactQuestion) -> FactAnswer:
    question, prior = asked.question, asked.prior
    standing = question.standing
    if standing is None:
        raise ValueError("the question did not run")
    columns = [(rank, place, right) for place, right in asked.objects if (rank := standing.ranks[question.right[right]])]
    if not columns:
        return FactAnswer(asked.template, asked.prime, None, None, None, None, standing.top)
    rank, place, right = min(columns)
    before = None
    if prior is not None and prior.standing is not None:
        column = prior.right[right]
        before = prior.standing.ranks[column] or 0, prior.standing.logs[column]
    return FactAnswer(asked.template, asked.prime, rank, place, standing.logs[question.right[right]], before, standing.top)
