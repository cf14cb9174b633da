"""A treebank of a sentence with two words in one, and of words that govern each other."""

TREE = """\
# text = The cat doesn't sleep.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\tNN\t_\t5\tnsubj\t_\t_
3\tdoes\tdo\tAUX\tVBZ\t_\t5\taux\t_\tSpaceAfter=No
4\tn't\tnot\tPART\tRB\t_\t5\tadvmod\t_\t_
5\tsleep\tsleep\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t5\tpunct\t_\t_

1\tround\tround\tX\tX\t_\t2\tdep\t_\t_
2\tround\tround\tX\tX\t_\t1\tdep\t_\t_
"""
