"""A sentence of a treebank, with room for more columns."""

SENTENCE = """\
# text = The cat sat there.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_{0}
2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_{1}
3\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\t_{2}
4\tthere\tthere\tADV\tRB\t_\t3\tadvmod\t_\tSpaceAfter=No{0}
5\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_{0}

"""
