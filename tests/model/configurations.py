"""Which bounds are searched (bounds.pml), by run_model.py. A second part of True: a search for endless runs instead of broken promises."""


ONE_HISTORY, NO_DOUBLE, ONE_OWNER, PINS, SEGMENTS, KNOWN, SETTLES, BASELINE, SERVED = range(1, 10)  # state.pml
ENDLESS = 0


def bounds(attempts, losses=0, doubles=0, workers=0, coordinator=0, **more):
    """Attempts, messages lost and doubled, crashes of workers and of the coordinator."""
    named = {'NATT': attempts, 'LOSSES': losses, 'DOUBLES': doubles, 'WCRASHES': workers, 'CCRASHES': coordinator, **more}
    return [f'{name}={value}' for name, value in named.items()]


PLAIN = {
    'two attempts': (bounds(2, losses=1), False),
    'one attempt, all faults': (bounds(1, losses=1, doubles=1, workers=1, coordinator=1), False),
    'recover of a living owner': (bounds(1, workers=1, SPURIOUS=1), False),
    'cancel': (bounds(1, losses=1, coordinator=1, CANCELS=1), False),
    'forgotten jobs': (bounds(1, workers=1, PRUNES=1), False),
    'restored backup': (bounds(1, losses=1, doubles=1, RESTORES=1, UPTO=ONE_OWNER), False),
    'no endless run': (bounds(1, losses=1, workers=1), True),
}

SLOW = {
    'two attempts, lost and doubled': (bounds(2, losses=1, doubles=1), False),
    'two attempts, a worker crashes': (bounds(2, losses=1, workers=1), False),
    'two attempts, coordinator crashes': (bounds(2, losses=1, doubles=1, coordinator=1), False),
    'two attempts, two losses': (bounds(2, losses=2, doubles=1), False),
    'two attempts, restored backup': (bounds(2, RESTORES=1, UPTO=ONE_OWNER), False),
    'three attempts': (bounds(3, losses=1), False),
    'one attempt, everything': (bounds(1, losses=1, workers=1, coordinator=1, SPURIOUS=1, CANCELS=1, PRUNES=1), False),
    'two attempts, no endless run': (bounds(2, losses=1), True),
}

MUTANTS = {
    # protocol.md, section 8: what is taken out, where it is looked for, and which promise it must break
    'SOURCE_RESUMES_ON_TIMEOUT': (bounds(1), ONE_OWNER),
    'NOT_COMMITTED_FROM_READ': (bounds(1), ONE_OWNER),
    'ABORT_BEFORE_DURABLE': (bounds(1), ONE_OWNER),
    'LATE_COMMIT': (bounds(1), ONE_OWNER),
    'PREPARED_FREED_BY_LEASE': (bounds(1), PINS),
    'FREE_ON_COMMITTED': (bounds(1), PINS),
    'DELIVER_BEFORE_RESUMED': (bounds(1, NTOK=3), ONE_HISTORY),
    'BOOT_ID_KEPT': (bounds(1, workers=1), SERVED),
    'TWO_TRANSACTIONS': (bounds(1, workers=1, coordinator=1), SETTLES),
    'DEDUP_BY_EPOCH': (bounds(1, doubles=1), NO_DOUBLE),
    'OLD_FRAME': (bounds(2), SEGMENTS),
    'LEASE_CHANGES_OWNER': (bounds(1), ONE_HISTORY),
    # found by the model
    'REFUSE_AFTER_PREPARED': (bounds(1, doubles=1), SERVED),
    'RECOVER_KEEPS_STREAMS': (bounds(1, doubles=1, workers=1), ONE_HISTORY),
    'FORGOTTEN_IS_ABORTED': (bounds(1, losses=1, workers=1, PRUNES=1), ENDLESS),
    'RECOVER_LEAVES_JOB': (bounds(1, workers=1), SETTLES),
    'PREPARED_BEFORE_SOURCE_ASKED': (bounds(1, RESTORES=1), ONE_OWNER),
    'RESTORED_STORE_BELIEVED': (bounds(1, RESTORES=1), ONE_OWNER),
}
