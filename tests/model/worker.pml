/* A worker: the request itself, an outgoing attempt, an incoming attempt. */

inline free(pin) { PROMISE(PINS, pin); pin = 0 }
inline end_in(w) { gone_in[w] = i_att[w]; i_att[w] = 0; i_st[w] = 0; i_data[w] = 0 }
inline end_out(w) { gone_out[w] = o_att[w]; o_att[w] = 0; o_st[w] = 0 }
inline give_up_in(w) { free(p_in[w]); end_in(w) }

/* A record of the request comes in; a former self keeps its cells until it is told that it may free them. */
inline take_slot(w, new_epoch, tokens, history) {
  if
  :: p_own[w] -> PROMISE(PINS, st[w] == MOVED && !p_old[w]); p_old[w] = 1
  :: else
  fi;
  NOTE_START(w, tokens); p_own[w] = 1; st[w] = DECODING; ep[w] = new_epoch; n_log[w] = tokens; hist[w] = history
}

/* An incoming request goes again; its former self, if any, is what is left. */
inline drop_slot(w) {
  free(p_own[w]);
  if
  :: p_old[w] -> p_old[w] = 0; p_own[w] = 1; st[w] = MOVED
  :: else -> st[w] = FORWARDING
  fi;
  deliver[w] = 0; n_log[w] = 0; hist[w] = 0
}

inline activate(w) {
  PROMISE(PINS, p_in[w]);
  PROMISE(SEGMENTS, i_data[w] == i_att[w]);
  p_in[w] = 0;
  take_slot(w, (a_epoch[i_att[w]] + 1), f_len[i_att[w]], f_hist[i_att[w]]);
  deliver[w] = DELIVER_ON_COMMIT; i_st[w] = I_COMMITTED
}

inline resumed_here(w) { deliver[w] = 1; end_in(w) }

/* The request goes on elsewhere for good: quiesce, then free. */
inline free_moved(w) {
  PROMISE(KNOWN, dec[o_att[w]] == RESUMED || dec[o_att[w]] == SUPERSEDED || dec[o_att[w]] == 0);
  if
  :: p_old[w] -> free(p_old[w])
  :: else -> PROMISE(PINS, st[w] == MOVED); FREE_OWN(w); st[w] = FORWARDING; n_log[w] = 0; hist[w] = 0; deliver[w] = 0
  fi;
  end_out(w)
}

/* Recover made this worker the owner: it replays what the client holds. What it held of lower epochs comes to nothing any more. */
inline adopt(w) {
  if
  :: i_att[w] != 0 && i_st[w] == I_COMMITTED -> drop_slot(w); end_in(w)
  :: i_att[w] != 0 && i_st[w] < I_COMMITTED -> give_up_in(w)
  :: else
  fi;
  if
  :: p_own[w] && st[w] != MOVED -> if :: o_att[w] != 0 -> end_out(w) :: else fi; free(p_own[w])
  :: else
  fi;
  take_slot(w, r_epoch, r_start, r_hist);
  deliver[w] = 1
}

/* Reserve, StartMove and FINAL of attempts that are not held (any more). */
#define ARRIVALS(n) \
     :: HAS(m_reserve, n) && DST(n) == w -> TAKE(m_reserve, n); \
          if \
          :: a_dboot[n] == boot[w] && n > gone_in[w] && n > i_att[w] && i_st[w] < I_FINAL -> \
               if :: i_att[w] != 0 -> give_up_in(w) :: else fi; \
               i_att[w] = n; i_st[w] = I_RESERVED; p_in[w] = 1; PUT(m_start, n) \
          :: else -> skip \
          fi \
     :: HAS(m_start, n) && a_src[n] == w -> TAKE(m_start, n); \
          if \
          :: a_sboot[n] == boot[w] && n > gone_out[w] && o_att[w] == 0 && st[w] == DECODING && deliver[w] && ep[w] == a_epoch[n] -> \
               o_att[w] = n; o_st[w] = O_PRECOPY; PUT(m_frame, n) \
          :: else -> skip \
          fi \
     :: HAS(m_frame, n) && DST(n) == w && i_att[w] != 0 && WRITES_FRAME(n) -> TAKE(m_frame, n); i_data[w] = n \
     :: HAS(m_final, n) && DST(n) == w && !IN(n) && MAY_REFUSE(n) -> TAKE(m_final, n); PUT(m_refuse, n)

#define I i_att[w]
#define DESTINATION \
     :: HAS(m_abort, I) && i_st[w] == I_RESERVED -> TAKE(m_abort, I); give_up_in(w) \
     :: HAS(m_final, I) && i_st[w] == I_RESERVED -> TAKE(m_final, I); \
          if \
          :: i_data[w] == I -> i_st[w] = I_FINAL \
          :: else -> PUT(m_refuse, I); give_up_in(w)                 /* before its bytes */ \
          fi \
     :: i_st[w] == I_RESERVED -> give_up_in(w)                       /* its lease ran out */ \
     :: i_st[w] == I_FINAL -> PUT(m_refuse, I); give_up_in(w)        /* the probe failed */ \
     :: i_st[w] == I_FINAL && (!p_own[w] || st[w] == MOVED) -> i_st[w] = I_PREPARED; PUT(was_prepared[w], I); PUT(m_prepared, I) \
     :: i_st[w] == I_PREPARED && !HAS(m_prepared, I) && told[T(w, I)] == 0 -> PUT(m_prepared, I) \
     :: i_st[w] == I_COMMITTED && !HAS(m_resumed, I) && told[T(w, I)] == 0 -> PUT(m_resumed, I) \
     :: HEARD(I, COMMITTED) -> TAKE(told[T(w, I)], COMMITTED); \
          if :: i_st[w] == I_PREPARED -> activate(w); PUT(m_resumed, I) :: else -> skip fi \
     :: HEARD(I, RESUMED) -> TAKE(told[T(w, I)], RESUMED); \
          if \
          :: i_st[w] == I_PREPARED -> activate(w); resumed_here(w) \
          :: i_st[w] == I_COMMITTED -> resumed_here(w) \
          :: else -> skip \
          fi \
     :: HEARD(I, ABORTED) -> TAKE(told[T(w, I)], ABORTED); \
          if :: i_st[w] <= I_PREPARED -> give_up_in(w) :: else -> skip fi \
     :: HEARD(I, ROLLED_BACK) -> TAKE(told[T(w, I)], ROLLED_BACK); \
          if :: i_st[w] <= I_PREPARED -> give_up_in(w) :: else -> drop_slot(w); end_in(w) fi \
     :: HEARD(I, SUPERSEDED) -> TAKE(told[T(w, I)], SUPERSEDED); \
          if :: i_st[w] <= I_PREPARED -> give_up_in(w) :: else -> drop_slot(w); end_in(w) fi \
     LEASE_OF_PREPARED

#define O o_att[w]
#define SOURCE \
     :: o_st[w] == O_PRECOPY -> PUT(m_abort, O); end_out(w)          /* gives up alone */ \
     :: o_st[w] == O_PRECOPY && st[w] == DECODING -> \
          st[w] = PAUSED; o_st[w] = O_FINAL; f_len[O] = n_log[w]; f_hist[O] = hist[w]; PUT(m_final, O) \
     :: o_st[w] == O_FINAL && HAS(m_refuse, O) -> TAKE(m_refuse, O); st[w] = DECODING; end_out(w)   /* definite */ \
     :: (o_st[w] == O_FINAL || (o_st[w] == O_COMMITTED && dec[O] != COMMITTED && s_open != O)) \
        && !HAS(m_resolve, O) && !HAS(m_refuse, O) && told[T(w, O)] == 0 -> PUT(m_resolve, O) \
     :: HEARD(O, COMMITTED) -> TAKE(told[T(w, O)], COMMITTED); \
          if :: o_st[w] == O_FINAL -> st[w] = MOVED; o_st[w] = O_COMMITTED; ON_COMMITTED(w) :: else -> skip fi \
     :: HEARD(O, RESUMED) -> TAKE(told[T(w, O)], RESUMED); \
          if \
          :: o_st[w] == O_FINAL -> st[w] = MOVED; free_moved(w) \
          :: o_st[w] == O_COMMITTED -> free_moved(w) \
          :: else -> skip \
          fi \
     :: HEARD(O, ABORTED) -> TAKE(told[T(w, O)], ABORTED); \
          if \
          :: o_st[w] == O_PRECOPY -> PUT(m_abort, O); end_out(w) \
          :: o_st[w] == O_FINAL -> st[w] = DECODING; end_out(w) \
          :: else -> skip \
          fi \
     :: HEARD(O, ROLLED_BACK) -> TAKE(told[T(w, O)], ROLLED_BACK); \
          if \
          :: o_st[w] >= O_FINAL && p_old[w] -> free(p_old[w]); end_out(w)   /* its present self is of a later epoch */ \
          :: o_st[w] >= O_FINAL && !p_old[w] -> PROMISE(PINS, p_own[w]); st[w] = DECODING; ep[w] = a_epoch[O] + 2; NOTE_START(w, n_log[w]); end_out(w) \
          :: else -> skip \
          fi \
     :: HEARD(O, SUPERSEDED) -> TAKE(told[T(w, O)], SUPERSEDED); \
          if \
          :: o_st[w] == O_FINAL -> st[w] = MOVED; free_moved(w) \
          :: o_st[w] == O_COMMITTED -> free_moved(w) \
          :: else -> skip \
          fi \
     PAUSE_TIMEOUT

#define SERVES(w) (deliver[w] && (st[w] == DECODING || st[w] == PAUSED || st[w] == MOVED))
/* An attach whose min_epoch is above the worker's own is refused. */
#define WANTED(w) (ep[w] >= c_epoch || (k_open[w] && VALID(c_next, ep[w])))

proctype Worker(bit w) {
end:
  do
  :: atomic {
     if
     :: st[w] == DECODING && n_log[w] < NTOK -> hist[w] = hist[w] | (TAG(w) << (8 * n_log[w])); n_log[w]++
     :: SERVES(w) && !c_recovering && c_next < n_log[w] && WANTED(w) ->
          k_open[w] = 1; take_token(w, c_next, ep[w], (hist[w] & MASK(c_next + 1)))
     :: SERVES(w) && doubles > 0 && k_idx[w] == EMPTY && !c_recovering && c_next < n_log[w] && WANTED(w) -> doubles--;   /* comes late ... */
          k_open[w] = 1; k_idx[w] = c_next; k_epoch[w] = ep[w]; k_hist[w] = hist[w] & MASK(c_next + 1)
     :: SERVES(w) && doubles > 0 && !c_recovering && c_next > 0 && c_next <= n_log[w] && WANTED(w) -> doubles--;         /* ... or again */
          take_token(w, (c_next - 1), ep[w], (hist[w] & MASK(c_next)))
     EACH_ATTEMPT(ARRIVALS)
     DESTINATION
     SOURCE
     :: m_adopt && r_worker == w -> m_adopt = 0;
          if
          :: s_boot == boot[w] && ep[w] < r_epoch && r_epoch == s_epoch -> adopt(w)
          :: else -> skip
          fi
     /* Cancelled by its client, or nobody reads it any more because its client follows a later epoch. */
     :: st[w] == DECODING && deliver[w] && (s_cancelled || (c_epoch > ep[w] && s_epoch > ep[w])) ->
          st[w] = ENDED; free(p_own[w]); deliver[w] = 0
     fi;
     TIDY_ALL }
  od
}
