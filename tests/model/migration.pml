/* The migration protocol of proto/README.md: one request, two workers (either may be source or destination), one coordinator
 * over a durable store with compare-and-swap, one client, and a network that loses, doubles, delays and reorders. README.md in this
 * folder maps every name to the code and says what is left out.
 *
 * A timer (lease, deadline, pause budget) may fire whenever its rule allows it: no behaviour of a real clock is outside that. A
 * process that is down is one that is slow, and has then lost what it did not write down.
 * A call that would change nothing is not made (a Resolve is only sent when its answer is news). So every run is finite, which a
 * search for cycles proves (-DNP, pan -l), and liveness is a property of the states in which nothing can happen any more: Settled.
 */
#include "bounds.pml"
#include "state.pml"
#include "mutants.pml"
#include "coordinator.pml"
#include "client.pml"
#include "worker.pml"

/* --- network and crashes --- */
#define LOSE(m, n) :: losses > 0 && HAS(m, n) -> losses--; DEL(m, n)
#define LOSE_ATTEMPT(n) \
     LOSE(m_reserve, n) LOSE(m_start, n) LOSE(m_frame, n) LOSE(m_final, n) LOSE(m_refuse, n) LOSE(m_prepared, n) LOSE(m_resumed, n) \
     LOSE(m_abort, n) LOSE(m_resolve, n) \
     :: losses > 0 && told[T(0, n)] != 0 -> losses--; told[T(0, n)] = 0 \
     :: losses > 0 && told[T(1, n)] != 0 -> losses--; told[T(1, n)] = 0

inline crash(w) {
  REBOOT(w); st[w] = 0; ep[w] = 0; n_log[w] = 0; hist[w] = 0; deliver[w] = 0;
  o_att[w] = 0; o_st[w] = 0; i_att[w] = 0; i_st[w] = 0; i_data[w] = 0; gone_in[w] = 0; gone_out[w] = 0; was_prepared[w] = 0;
  p_own[w] = 0; p_old[w] = 0; p_in[w] = 0; k_open[w] = 0
}

active proctype World() {
end:
  do
  :: atomic {
     if
     EACH_ATTEMPT(LOSE_ATTEMPT)
     :: losses > 0 && k_idx[0] != EMPTY -> losses--; forget_token(0)
     :: losses > 0 && k_idx[1] != EMPTY -> losses--; forget_token(1)
     :: losses > 0 && m_adopt -> losses--; m_adopt = 0
     :: w_crashes > 0 -> w_crashes--; crash(0)
     :: w_crashes > 0 -> w_crashes--; crash(1)
     fi;
     TIDY_ALL }
  od
}

/* --- when nothing can happen any more --- */
#define DECIDED(n) PROMISE(SETTLES, n > n_att || (dec[n] != OPEN && dec[n] != COMMITTED));
active proctype Settled() {
end:
  atomic {
    timeout;
    EACH_ATTEMPT(DECIDED)
    PROMISE(SETTLES, s_open == 0 && s_resumed && OWNER_LIVES && !c_recovering);
    PROMISE(SETTLES, o_att[0] == 0 && o_att[1] == 0 && i_att[0] == 0 && i_att[1] == 0);
    PROMISE(BASELINE, !p_in[0] && !p_in[1] && !p_old[0] && !p_old[1] && !p_own[1 - s_owner]);
    if
    :: s_cancelled -> PROMISE(BASELINE, !p_own[s_owner])
    :: else -> PROMISE(SERVED, p_own[s_owner] && st[s_owner] == DECODING && deliver[s_owner] && ep[s_owner] == s_epoch);
               PROMISE(SERVED, c_next == NTOK)
    fi
  }
}

init {
  atomic {
    st[0] = DECODING; ep[0] = 1; deliver[0] = 1; p_own[0] = 1;
    hist[0] = TAG(0); n_log[0] = 1;
    run Worker(0); run Worker(1)
  }
}
