/* The client: what it takes of what comes. */

/* An epoch's tokens are valid up to the start of any later one. */
#define BELOW(idx, e, later) ((e) >= later || (idx) < c_start[later])
#define VALID(idx, e) (BELOW(idx, e, 2) && BELOW(idx, e, 3) && BELOW(idx, e, 4) && BELOW(idx, e, 5) && BELOW(idx, e, 6) && \
  BELOW(idx, e, 7) && BELOW(idx, e, 8) && BELOW(idx, e, 9))

inline learn(epoch, start) {
  if :: c_start[epoch] > start -> c_start[epoch] = start :: else fi
}

inline accept_token(w, idx, epoch, history) {
  PROMISE(NO_DOUBLE, idx == c_next);
  PROMISE(ONE_HISTORY, (history & MASK(c_next)) == c_hist);
  PROMISE(ONE_OWNER, recovered || !(st[0] == DECODING && deliver[0] && st[1] == DECODING && deliver[1]));
  c_hist = history; c_next++;
  NOTE_EPOCH(epoch)
}

/* Token `idx` from a worker at `epoch`; `history` are all its tokens up to that one. */
inline take_token(w, idx, epoch, history) {
  if :: epoch > c_epoch -> c_epoch = epoch :: else fi;
  if
  :: !VALID(idx, MADE_IN(history, idx)) -> skip                     /* never back to a lower epoch */
  :: else ->
       learn(MADE_IN(history, idx), idx);
       if
       :: IS_DOUBLE(idx, epoch) -> PROMISE(ONE_HISTORY, (c_hist & MASK(idx + 1)) == history)
       :: !IS_DOUBLE(idx, epoch) && idx <= c_next -> accept_token(w, idx, epoch, history)
       :: else -> skip                                              /* a gap: refused, attached again */
       fi
  fi
}

inline forget_token(w) { k_idx[w] = EMPTY; k_epoch[w] = 0; k_hist[w] = 0 }

/* Recover ends every stream there is: nothing of this epoch is taken until the answer is known, and nothing late ever. */
inline call_recover() { CLOSE_STREAMS; c_recovering = 1; m_recover = 1 }

active proctype Client() {
end:
  do
  :: atomic {
     if
     :: !c_recovering && k_idx[0] != EMPTY -> take_token(0, k_idx[0], k_epoch[0], k_hist[0]); forget_token(0)
     :: !c_recovering && k_idx[1] != EMPTY -> take_token(1, k_idx[1], k_epoch[1], k_hist[1]); forget_token(1)
     /* Locate; also how it learns what became of its Recover. Moved says the same of the same record. */
     :: s_epoch > c_epoch && !m_recover -> c_epoch = s_epoch; learn(s_epoch, s_start); c_recovering = 0
     :: !c_recovering && !OWNER_LIVES && c_epoch == s_epoch && (ADOPTER(0) || ADOPTER(1)) -> call_recover()
     :: !c_recovering && spurious > 0 -> spurious--; c_spurious = 1; call_recover()
     :: OWNER_LIVES && r_epoch == s_epoch && ep[s_owner] < r_epoch && !m_adopt -> m_adopt = 1   /* Recover once more */
     :: cancels > 0 -> cancels--; m_cancel = 1
     fi;
     TIDY_ALL }
  od
}
