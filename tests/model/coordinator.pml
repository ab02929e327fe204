/* The coordinator: every step is one transaction of the store, or an answer from it. It remembers nothing itself. */

#define MAY_COMMIT(n) (IS_OPEN(n) && s_owner == a_src[n] && s_boot == a_sboot[n] && s_epoch == a_epoch[n] && !s_cancelled)
#define MAY_RESUME(n) (s_last == n && n != 0 && !s_rolled && !s_resumed && s_epoch == a_epoch[n] + 1 && s_boot == a_dboot[n])
#define MAY_ROLL_BACK(n) (s_last == n && n != 0 && !s_resumed && s_epoch == a_epoch[n] + 1)
#define OWNER_LIVES (boot[s_owner] == s_boot)
#define CONFIRMED(w) (st[w] == DECODING && deliver[w] && ep[w] == s_epoch)
#define ADOPTER(w) (!(w == s_owner && boot[w] == s_boot))

inline close_attempt(n) { dec[n] = ABORTED; TELL_BOTH(n, ABORTED); s_open = 0 }

/* What is decided: the job's record, else what the owner record alone says. An open attempt is no news. */
inline answer(w, n) {
  if
  :: JOB_OPEN(n) -> skip
  :: !JOB_OPEN(n) && dec[n] > OPEN -> PUT(told[T(w, n)], dec[n])
  :: !JOB_OPEN(n) && HIDDEN(n) && s_owner == w && s_rolled -> PUT(told[T(w, n)], ROLLED_BACK)
  :: !JOB_OPEN(n) && HIDDEN(n) && !(s_owner == w && s_rolled) -> PUT(told[T(w, n)], SUPERSEDED)
  :: else ->
       if
       :: s_last == n && s_rolled -> PUT(told[T(w, n)], ROLLED_BACK)
       :: s_last == n && !s_rolled && s_resumed -> PUT(told[T(w, n)], RESUMED)
       :: s_last == n && !s_rolled && !s_resumed -> PUT(told[T(w, n)], COMMITTED)
       :: s_last != n && s_epoch < a_epoch[n] -> skip     /* the store knows less than the caller: no answer is better than a guess */
       :: else -> PUT(told[T(w, n)], ABORTED)
       fi
  fi
}

inline open_attempt() {
  n_att++;
  a_src[n_att] = s_owner; a_sboot[n_att] = s_boot; a_dboot[n_att] = boot[1 - s_owner]; a_epoch[n_att] = s_epoch;
  s_open = n_att; dec[n_att] = OPEN;
  PUT(m_reserve, n_att)
}

inline commit(n) {
  s_prev = s_owner; s_prev_boot = s_boot;
  s_owner = DST(n); s_boot = a_dboot[n]; s_epoch = s_epoch + 1; s_start = f_len[n];
  s_last = n; s_resumed = 0; s_rolled = 0; s_open = 0;
  dec[n] = COMMITTED;
  TELL_BOTH(n, COMMITTED)
}

inline roll_back(n) {
  s_owner = s_prev; s_boot = s_prev_boot; s_epoch = s_epoch + 1; s_resumed = 1; s_rolled = 1;
  dec[n] = ROLLED_BACK;
  TELL_BOTH(n, ROLLED_BACK)
}

inline recover_to(w) {
  if :: s_open != 0 -> close_attempt(s_open) :: else fi;
  SUPERSEDE;
  s_owner = w; s_boot = boot[w]; s_epoch = s_epoch + 1; s_start = c_next;
  s_last = 0; s_resumed = 1; s_rolled = 0;
  r_worker = w; r_epoch = s_epoch; r_start = c_next; r_hist = c_hist;
  m_adopt = 1; recovered = 1
}

/* After a restart: what is open is joined once its source has said that it is (or closed, as ever), what was committed goes on. */
inline restart() {
  FORGET_HALF;
  if :: JOB_OPEN(s_open) -> unasked = s_open :: else -> unasked = 0 fi;
  if :: s_last != 0 && !s_resumed -> TELL_BOTH(s_last, COMMITTED) :: else fi
}

#define SOURCE_HOLDS(n) (boot[a_src[n]] == a_sboot[n] && OUT(n) && o_st[a_src[n]] <= O_FINAL)

#define CALLS(n) \
  :: HAS(m_prepared, n) && ASKED(n) -> TAKE(m_prepared, n); \
       if \
       :: MAY_COMMIT(n) -> DECIDE_COMMIT(n) \
       :: !MAY_COMMIT(n) && JOB_OPEN(n) -> close_attempt(n) \
       :: else -> answer(DST(n), n) \
       fi \
  :: HAS(m_resumed, n) -> TAKE(m_resumed, n); \
       if \
       :: MAY_RESUME(n) -> s_resumed = 1; dec[n] = RESUMED; TELL_BOTH(n, RESUMED) \
       :: else -> answer(DST(n), n) \
       fi \
  :: HAS(m_resolve, n) -> TAKE(m_resolve, n); \
       if \
       :: JOB_OPEN(n) -> GIVE_UP(n) \
       :: else -> answer(a_src[n], n) \
       fi \
  :: prunes > 0 && dec[n] > COMMITTED && s_open != n -> prunes--; dec[n] = 0

#include "restore.pml"

active proctype Coordinator() {
end:
  do
  :: atomic {
     if
     :: n_att < NATT && s_open == 0 && s_resumed && !s_cancelled && OWNER_LIVES && CONFIRMED(s_owner) -> open_attempt()
     EACH_ATTEMPT(CALLS)
     :: JOB_OPEN(s_open) -> close_attempt(s_open)              /* cancelled, past its deadline, a side gave up, a worker is gone */
     :: unasked != 0 && SOURCE_HOLDS(unasked) -> unasked = 0
     :: MAY_ROLL_BACK(s_last) && boot[a_src[s_last]] == a_sboot[s_last] -> roll_back(s_last)
     :: m_recover -> m_recover = 0;
          if
          :: s_epoch == c_epoch && (!OWNER_LIVES || c_spurious) && ADOPTER(0) -> recover_to(0)
          :: s_epoch == c_epoch && (!OWNER_LIVES || c_spurious) && ADOPTER(1) -> recover_to(1)
          :: else -> c_recovering = 0                     /* refused: the owner lives, or another epoch, which Locate tells */
          fi;
          c_spurious = 0
     :: m_cancel -> m_cancel = 0; s_cancelled = 1
     :: c_crashes > 0 -> c_crashes--; restart()
     RESTORE
     SECOND_TRANSACTION
     ABORT_EARLY
     LEASE_EXPIRY
     fi;
     TIDY_ALL }
  od
}
