#!/usr/bin/env python3
"""Checks the Promela model of the migration protocol with spin: that it is safe and that every mutant is caught.

    run_model.py OUT [plain|mutants|slow]...     default: plain mutants

Writes OUT/model.txt (the table it prints) and, for what fails, OUT/<name>.trail.txt: every step that led there.
Exit status: 0 when all is as it should be, 1 when not, 77 when spin or a C compiler is not installed (ctest: skipped).
"""
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from configurations import ENDLESS, MUTANTS, PLAIN, SLOW

HERE = Path(__file__).resolve().parent
SKIPPED = 77
PROMISES = {
    0: 'no endless run',
    1: 'one history',
    2: 'no gap, no double',
    3: 'one owner',
    4: 'cells freed once',
    5: 'sealed segments',
    6: 'freed when known',
    7: 'settles',
    8: 'pins at baseline',
    9: 'served to the end',
}


class Failure(Exception):
    pass


def run(command, folder, memory_mib=0):
    limit = None
    if memory_mib:
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (memory_mib << 20, memory_mib << 20))
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limit)


def number(pattern, text):
    found = re.search(pattern, text)
    return int(float(found.group(1))) if found else 0


def promise_of(text):
    """What a pan report says went wrong; empty when nothing did."""
    broken = re.search(r'assertion violated .*\|\|\((\d+)==0\)\) \(at depth', text)
    if broken:
        return PROMISES[int(broken.group(1))]
    if 'non-progress cycle (at depth' in text:
        return PROMISES[ENDLESS]
    other = re.search(r'pan:1: (.*) \(at depth', text)
    return other.group(1) if other else ''


class Search:
    """One exhaustive search: a model built with `defines`, looked through by spin's verifier."""

    def __init__(self, out, name, defines, cycles=False, optimise='-O0', memory_mib=1900):
        self.name, self.cycles, self.optimise, self.memory_mib = name, cycles, optimise, memory_mib
        self.folder = out / name.replace(' ', '_').replace(',', '')
        self.flags = [f'-D{d}' for d in defines]

    def build(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        made = run(['spin', '-a', *self.flags, str(HERE / 'migration.pml')], self.folder)
        if made.returncode != 0 or not (self.folder / 'pan.c').exists():
            raise Failure(f'{self.name}: spin refuses the model:\n{made.stdout}')
        kind = ['-DNP'] if self.cycles else ['-DSAFETY']
        built = run(['cc', self.optimise, '-w', *kind, '-DNOREDUCE', f'-DMEMLIM={self.memory_mib}', '-o', 'pan', 'pan.c'], self.folder)
        if built.returncode != 0:
            raise Failure(f'{self.name}: the verifier does not compile:\n{built.stdout}')

    def search(self):
        self.build()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = run(['./pan', *(['-l'] if self.cycles else []), '-m100000', '-w22'], self.folder, self.memory_mib + 200)
        self.seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        self.report = done.stdout
        self.states = number(r'([\d.e+]+) states, stored', self.report)
        self.depth = number(r'at depth (\d+)', self.report) or number(r'depth reached (\d+)', self.report)
        self.memory = number(r'([\d.]+)\s+total actual memory usage', self.report)
        self.broken = promise_of(self.report)
        if 'errors:' not in self.report or 'max search depth too small' in self.report or 'reached -DMEMLIM' in self.report:
            raise Failure(f'{self.name}: the search did not end:\n{self.report[-2000:]}')
        return self

    def write_trail(self, path):
        trail = next(self.folder.glob('*.trail'), None)
        if trail is None:
            return
        steps = run(['spin', '-t', '-p', '-k', trail.name, *self.flags, str(HERE / 'migration.pml')], self.folder)
        path.write_text(f'{self.name}: {self.broken}\n{" ".join(self.flags)}\n\n{steps.stdout}')


class Table:
    def __init__(self, path):
        self.path, self.lines = path, []
        self.add(['model', 'promise that breaks', 'depth', 'states', 'MB', 'CPU s', ''])

    def add(self, cells):
        widths = [34, 20, 6, 10, 5, 8, 0]
        line = ' '.join(str(c).ljust(w) if i < 2 else str(c).rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()
        self.lines.append(line)
        print(line, flush=True)
        self.path.write_text('\n'.join(self.lines) + '\n')

    def search(self, s, good):
        self.add([s.name, s.broken or '-', s.depth, s.states, s.memory, f'{s.seconds:.1f}', '' if good else '  WRONG'])


def check_plain(out, table, configurations, optimise):
    bad = 0
    for name, (defines, cycles) in configurations.items():
        s = Search(out, name, defines, cycles, optimise).search()
        table.search(s, not s.broken)
        if s.broken:
            s.write_trail(out / f'{name}.trail.txt')
        bad += bool(s.broken)
    return bad


def check_mutants(out, table):
    bad = 0
    for name, (defines, promise) in MUTANTS.items():
        cycles = promise == ENDLESS
        only = [] if cycles else [f'ONLY={promise}']
        s = Search(out, name, [f'MUTANT_{name}', *defines, *only], cycles).search()
        caught = s.broken == PROMISES[promise]
        table.search(s, caught)
        if s.broken:
            s.write_trail(out / f'{name}.trail.txt')
        bad += not caught
    return bad


def main(arguments):
    if not arguments or arguments[0].startswith('-'):
        print(__doc__)
        return 2
    for program in ('spin', 'cc'):
        if shutil.which(program) is None:
            print(f'skipped: {program} is not installed (deploy/lib/apt.sh build brings it)')
            return SKIPPED
    out = Path(arguments[0]).resolve()
    parts = arguments[1:] or ['plain', 'mutants']
    out.mkdir(parents=True, exist_ok=True)
    table = Table(out / 'model.txt')
    bad = 0
    try:
        for part in parts:
            if part == 'mutants':
                bad += check_mutants(out, table)
            else:
                bad += check_plain(out, table, PLAIN if part == 'plain' else SLOW, '-O0' if part == 'plain' else '-O2')
    except Failure as failure:
        print(failure)
        return 1
    print(f'{bad} are not as they should be; their steps are in {out}' if bad else 'all as it should be')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
