"""Benchmarks as the client reads them, of replies with numbers that are easy to recognise."""

from bertscope import BenchmarkReport, StudyTable
from bertscope.questions.benchmark import replies
from bertscope.questions.benchmark.replies import StudiesAssembler
from bertscope.v1 import benchmark_pb2

from tests.support import reports


def report(*models: benchmark_pb2.ModelReport, **fields: object) -> BenchmarkReport:
    message = benchmark_pb2.BenchmarkModelsResponse(report=reports.report(*models, **fields))
    return replies.benchmark_event(message)


def studies(*rows: benchmark_pb2.StudyRow) -> StudyTable:
    assembler = StudiesAssembler(None)
    for row in rows:
        assembler.add(benchmark_pb2.BenchmarkStudiesResponse(row=row))
    assembler.add(benchmark_pb2.BenchmarkStudiesResponse(summary=reports.summary()))
    return assembler.end()
