/* The mutants of protocol.md section 8, and some that the model itself suggested: each is one rule taken out. */

#ifdef MUTANT_SOURCE_RESUMES_ON_TIMEOUT
#define PAUSE_TIMEOUT :: o_st[w] == O_FINAL -> st[w] = DECODING; end_out(w)
#else
#define PAUSE_TIMEOUT
#endif

#ifdef MUTANT_NOT_COMMITTED_FROM_READ     /* a Resolve that finds the source still the owner */
#define GIVE_UP(n) PUT(told[T(a_src[n], n)], ABORTED)
#else
#define GIVE_UP(n) close_attempt(n)
#endif

#ifdef MUTANT_ABORT_BEFORE_DURABLE
#define ABORT_EARLY :: s_open != 0 && !HAS(told[T(0, s_open)], ABORTED) && OUT(s_open) -> TELL_BOTH(s_open, ABORTED)
#else
#define ABORT_EARLY
#endif

#ifdef MUTANT_LATE_COMMIT                 /* compares owner, boot and epoch, not the open attempt */
#define IS_OPEN(n) (n != 0 && s_last != n)
#else
#define IS_OPEN(n) (n != 0 && s_open == n)
#endif

#ifdef MUTANT_PREPARED_FREED_BY_LEASE
#define LEASE_OF_PREPARED :: i_st[w] == I_PREPARED && p_in[w] -> p_in[w] = 0
#else
#define LEASE_OF_PREPARED
#endif

#ifdef MUTANT_FREE_ON_COMMITTED
#define ON_COMMITTED(w) free(p_own[w])
#define FREE_OWN(w) skip
#else
#define ON_COMMITTED(w) skip
#define FREE_OWN(w) free(p_own[w])
#endif

#ifdef MUTANT_DELIVER_BEFORE_RESUMED
#define DELIVER_ON_COMMIT 1
#else
#define DELIVER_ON_COMMIT 0
#endif

#ifdef MUTANT_BOOT_ID_KEPT
#define REBOOT(w) skip
#else
#define REBOOT(w) boot[w]++
#endif

#ifdef MUTANT_TWO_TRANSACTIONS            /* the job's record first, then the owner record; the job's is believed */
byte c_half;
#define DECIDE_COMMIT(n) dec[n] = COMMITTED; c_half = n
#define SECOND_TRANSACTION :: c_half != 0 -> if :: MAY_COMMIT(c_half) -> commit(c_half) :: else fi; c_half = 0
#define FORGET_HALF c_half = 0
#define JOB_OPEN(n) (n != 0 && s_open == n && dec[n] == OPEN)
#else
#define DECIDE_COMMIT(n) commit(n)
#define SECOND_TRANSACTION
#define FORGET_HALF skip
#define JOB_OPEN(n) (n != 0 && s_open == n)
#endif

#ifdef MUTANT_DEDUP_BY_EPOCH              /* tokens are the same only if epoch and index are */
byte c_last = 1;
#define NOTE_EPOCH(epoch) c_last = epoch
#define IS_DOUBLE(idx, epoch) (idx < c_next && epoch <= c_last)
#else
#define NOTE_EPOCH(epoch) skip
#define IS_DOUBLE(idx, epoch) (idx < c_next)
#endif

#ifdef MUTANT_OLD_FRAME                   /* a frame is written by its segment's number, whatever its attempt */
#define ANY_FRAME 1
#define WRITES_FRAME(n) (i_att[w] >= n && i_st[w] <= I_PREPARED)
#else
#define ANY_FRAME 0
#define WRITES_FRAME(n) (i_att[w] == n && i_st[w] == I_RESERVED)
#endif

#ifdef MUTANT_LEASE_CHANGES_OWNER
#define LEASE_EXPIRY :: s_open == 0 && s_resumed && !recovered -> recover_to((1 - s_owner))
#else
#define LEASE_EXPIRY
#endif

/* Not in section 8. */
#ifdef MUTANT_REFUSE_AFTER_PREPARED       /* a doubled FINAL is refused by the tombstone of an attempt that was PREPARED */
#define MAY_REFUSE(n) (a_dboot[n] == boot[DST(n)])
#else
#define MAY_REFUSE(n) (a_dboot[n] == boot[DST(n)] && !HAS(was_prepared[DST(n)], n))
#endif

#ifdef MUTANT_RECOVER_KEEPS_STREAMS       /* what the streams of before Recover still bring is taken */
#define CLOSE_STREAMS skip
#else
#define CLOSE_STREAMS forget_token(0); forget_token(1); k_open[0] = 0; k_open[1] = 0
#endif

#ifdef MUTANT_FORGOTTEN_IS_ABORTED        /* an attempt that no record speaks of any more is said to be aborted */
#define HIDDEN(n) false
#else
#define HIDDEN(n) (dec[n] == 0 && s_epoch > a_epoch[n] && s_last != n)
#endif

#ifdef MUTANT_PREPARED_BEFORE_SOURCE_ASKED  /* an attempt that a restarted coordinator finds open commits at once */
#define ASKED(n) true
#else
#define ASKED(n) (unasked != n)
#endif

#ifdef MUTANT_RECOVER_LEAVES_JOB          /* Recover changes the owner record alone */
#define SUPERSEDE skip
#else
#define SUPERSEDE if :: !s_resumed -> dec[s_last] = SUPERSEDED; TELL_BOTH(s_last, SUPERSEDED) :: else fi
#endif
