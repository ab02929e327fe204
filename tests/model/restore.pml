/* A store that goes back in time: a backup of all of it, taken at any moment, is put back at any later one, and the coordinator starts
 * again, under a new leader term: what its predecessor sent is refused. Before it answers anybody it asks both workers; one that holds
 * the request at a higher epoch than the record wins, and so does one that delivers, or
 * has freed, where the record says that the request has not resumed. */
#if RESTORES == 0
#define RESTORE
#define NOTE_START(w, start) skip
#else
#define NOTE_START(w, start) w_start[w] = start
byte restores = RESTORES; bit restored;
byte w_start[2];                   /* the start index of the worker's epoch */
bit  b_there;
bit  b_owner; byte b_boot, b_epoch, b_start, b_open, b_last; bit b_resumed, b_rolled, b_prev; byte b_prev_boot; bit b_cancelled;
byte b_dec[NSLOT];

#define BACK_UP(n) b_dec[n] = dec[n];
inline back_up() {
  b_there = 1;
  b_owner = s_owner; b_boot = s_boot; b_epoch = s_epoch; b_start = s_start; b_open = s_open; b_last = s_last; b_resumed = s_resumed;
  b_rolled = s_rolled; b_prev = s_prev; b_prev_boot = s_prev_boot; b_cancelled = s_cancelled;
  EACH_ATTEMPT(BACK_UP) skip
}

#define PUT_BACK(n) dec[n] = b_dec[n]; told[T(0, n)] = 0; told[T(1, n)] = 0;
inline put_back() {
  s_owner = b_owner; s_boot = b_boot; s_epoch = b_epoch; s_start = b_start; s_open = b_open; s_last = b_last; s_resumed = b_resumed;
  s_rolled = b_rolled; s_prev = b_prev; s_prev_boot = b_prev_boot; s_cancelled = b_cancelled;
  EACH_ATTEMPT(PUT_BACK)
  b_owner = 0; b_boot = 0; b_epoch = 0; b_start = 0; b_open = 0; b_last = 0; b_resumed = 0; b_rolled = 0; b_prev = 0; b_prev_boot = 0;
  b_cancelled = 0;
  m_reserve = 0; m_start = 0; m_adopt = 0
}

inline ask_worker(w) {
  if
  :: p_own[w] && (st[w] == DECODING || st[w] == PAUSED) && ep[w] > s_epoch ->
       s_owner = w; s_boot = boot[w]; s_epoch = ep[w]; s_start = w_start[w]; s_open = 0; s_rolled = 0;
       if
       :: i_st[w] == I_COMMITTED -> s_last = i_att[w]; s_resumed = 0; s_prev = 1 - w; s_prev_boot = a_sboot[i_att[w]]; dec[i_att[w]] = COMMITTED
       :: else -> s_last = 0; s_resumed = 1
       fi
  :: p_own[w] && ep[w] == s_epoch && s_owner == w && deliver[w] && !s_resumed -> s_resumed = 1; dec[s_last] = RESUMED
  :: else
  fi
}

/* A source that has freed was told RESUMED. */
inline ask_source() {
  if
  :: !s_resumed && s_last != 0 && boot[s_prev] == s_prev_boot && o_att[s_prev] != s_last -> s_resumed = 1; dec[s_last] = RESUMED
  :: else
  fi
}

/* What a job says of an attempt counts only while the owner record says the same. */
#define DERIVE(n) if :: (dec[n] == OPEN && s_open != n) || (dec[n] == COMMITTED && s_last != n) -> dec[n] = 0 :: else fi;

#define RESTORE \
     :: restores > 0 && !b_there -> back_up() \
     :: restores > 0 && b_there -> restores--; restored = 1; put_back(); CONFIRM EACH_ATTEMPT(DERIVE) restart()
#ifdef MUTANT_RESTORED_STORE_BELIEVED
#define CONFIRM
#else
#define CONFIRM ask_worker(0); ask_worker(1); ask_source();
#endif
#endif
