"""A sentence of a treebank, and what the pages of studies hold."""

from html.parser import HTMLParser

SENTENCE = """\
# text = The cat sat there.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_{0}
2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_{1}
3\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\t_{2}
4\tthere\tthere\tADV\tRB\t_\t3\tadvmod\t_\tSpaceAfter=No{0}
5\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_{0}

"""


class Sections(HTMLParser):
    """Collects the text of each section of a page, and counts its tables and pictures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.counts: dict[str, dict[str, int]] = {}
        self.now = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "section":
            self.now = (dict(attrs)["id"] or "").removeprefix("s")
            self.texts[self.now], self.counts[self.now] = "", {"table": 0, "img": 0}
        elif self.now and tag in self.counts[self.now]:
            self.counts[self.now][tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self.now = "" if tag == "section" else self.now

    def handle_data(self, data: str) -> None:
        if self.now:
            self.texts[self.now] += data
