/* Everything that is remembered or in flight. */

/* --- what must hold; run_model.py knows them by number. -DONLY=k looks at one alone, -DUPTO=k at the first k --- */
#ifdef UPTO
#define PROMISE(k, condition) assert((condition) || k > UPTO || k == 0)
#elif defined(ONLY)
#define PROMISE(k, condition) assert((condition) || k != ONLY || k == 0)
#else
#define PROMISE(k, condition) assert((condition) || k == 0)
#endif
#define ONE_HISTORY 1  /* all a client has taken is one history: at each index one worker's token */
#define NO_DOUBLE 2    /* and no index is missing or there twice */
#define ONE_OWNER 3    /* no two workers decode and deliver */
#define PINS 4         /* cells are freed once, and what was promised is still there */
#define SEGMENTS 5     /* nothing of another attempt is in a checked segment */
#define KNOWN 6        /* a source frees only when it is decided that it will not go on */
#define SETTLES 7      /* every attempt and job comes to its end */
#define BASELINE 8     /* then nothing but the owner's cells is held */
#define SERVED 9       /* and the request is served, at the record's epoch, to its last token */

/* --- values --- */
/* of an attempt, in the job's record; 0: there is none */
#define OPEN 1
#define COMMITTED 2
#define ABORTED 3
#define RESUMED 4
#define ROLLED_BACK 5
#define SUPERSEDED 6   /* it committed, and the owner it made has been replaced since: the request is elsewhere for good */
/* of the request at a worker; 0: not there */
#define DECODING 1
#define PAUSED 2
#define MOVED 3        /* another worker owns it; cells and log are kept */
#define FORWARDING 4   /* ... and are freed */
#define ENDED 5
/* of an attempt at its source */
#define O_PRECOPY 1
#define O_FINAL 2      /* in doubt */
#define O_COMMITTED 3
/* of an attempt at its destination */
#define I_RESERVED 1
#define I_FINAL 2
#define I_PREPARED 3   /* in doubt */
#define I_COMMITTED 4
#define EMPTY 15

/* --- the store: owner record and jobs' records, always changed in one transaction --- */
bit  s_owner; byte s_boot, s_epoch = 1, s_start;
byte s_open;                       /* the open attempt, 0: none */
byte s_last; bit s_resumed = 1, s_rolled; bit s_prev; byte s_prev_boot;
bit  s_cancelled;
byte dec[NSLOT];
byte unasked;                      /* the coordinator's: it found this attempt open and has not asked the source yet */

/* --- fences and FINAL's content: what messages carry; written once an attempt --- */
byte n_att;
bit  a_src[NSLOT]; byte a_sboot[NSLOT], a_dboot[NSLOT], a_epoch[NSLOT];
byte f_len[NSLOT]; int f_hist[NSLOT];
bit  r_worker; byte r_epoch, r_start; int r_hist;     /* the newest Adopt */

/* --- messages in flight, a bit an attempt --- */
byte m_reserve, m_start, m_frame, m_final, m_refuse, m_prepared, m_resumed, m_abort, m_resolve;
byte told[2 * NSLOT];              /* Decide and answers to calls, by worker and attempt: a bit a decision */
bit  m_recover, m_adopt, m_cancel;
byte k_idx[2] = EMPTY, k_epoch[2]; int k_hist[2];     /* a token on its way to the client */

/* --- workers --- */
byte boot[2];
byte st[2], ep[2], n_log[2]; int hist[2]; bit deliver[2];
byte o_att[2], o_st[2];
byte i_att[2], i_st[2], i_data[2]; /* i_data: the attempt whose bytes are in the segments */
byte gone_in[2], gone_out[2];      /* tombstones: the highest attempt that ended here ... */
byte was_prepared[2];              /* ... and those that were PREPARED here, a bit each */
bit  p_own[2], p_old[2], p_in[2];  /* pins: of the request, of its former self behind an incoming one, of a reservation */

/* --- client --- */
byte c_next, c_epoch = 1; int c_hist;
byte c_start[NEPOCH] = EMPTY;      /* what it has learnt of epochs' start indices */
bit  c_recovering, c_spurious;
bit  k_open[2];                    /* it has a stream to this worker */

/* --- faults left --- */
byte losses = LOSSES, doubles = DOUBLES, w_crashes = WCRASHES, c_crashes = CCRASHES;
byte spurious = SPURIOUS, cancels = CANCELS, prunes = PRUNES;
bit  recovered;                    /* a Recover has happened: a former owner may live on, fenced by its epoch */

/* --- helpers --- */
#define BIT(n) (1 << (n))
#define HAS(m, n) ((m) & BIT(n))
#define PUT(m, n) m = (m) | BIT(n)
#define DEL(m, n) m = (m) & ~BIT(n)
#define TAKE(m, n) if :: DEL(m, n) :: doubles > 0 -> doubles-- fi
#define DST(n) (1 - a_src[n])
#define T(w, n) ((w) * NSLOT + (n))
#define HEARD(n, d) HAS(told[T(w, n)], d)
#define TELL_BOTH(n, d) PUT(told[T(0, n)], d); PUT(told[T(1, n)], d)

/* A history is 8 bits a token: who made it, under which epoch. Another maker is another history. */
#define MASK(k) ((1 << (8 * (k))) - 1)
#define TAG(w) (ep[w] * 16 + w * 8 + boot[w])
#define MADE_IN(history, idx) (((history) >> (8 * (idx) + 4)) & 15)

/* --- messages that can change nothing any more are not kept: the same behaviour in fewer states --- */
#define KEEP(m, n, condition) m = ((condition) -> m : (m & ~BIT(n)))
#define IN(n) (i_att[DST(n)] == n)
#define OUT(n) (o_att[a_src[n]] == n)
#define RESERVABLE(n) (IN(n) && i_st[DST(n)] == I_RESERVED)
#define TIDY(n) \
  KEEP(m_reserve, n, a_dboot[n] == boot[DST(n)] && n > gone_in[DST(n)] && i_att[DST(n)] <= n); \
  KEEP(m_start, n, a_sboot[n] == boot[a_src[n]] && n > gone_out[a_src[n]] && !OUT(n) && ep[a_src[n]] == a_epoch[n]); \
  KEEP(m_frame, n, ANY_FRAME || HAS(m_reserve, n) || (RESERVABLE(n) && i_data[DST(n)] != n)); \
  KEEP(m_abort, n, HAS(m_reserve, n) || RESERVABLE(n)); \
  KEEP(m_final, n, HAS(m_reserve, n) || RESERVABLE(n) || (OUT(n) && o_st[a_src[n]] == O_FINAL && MAY_REFUSE(n))); \
  KEEP(m_refuse, n, OUT(n) && o_st[a_src[n]] == O_FINAL); \
  KEEP(m_prepared, n, s_open == n || IN(n)); \
  KEEP(m_resumed, n, IN(n) || MAY_RESUME(n)); \
  KEEP(m_resolve, n, OUT(n)); \
  told[T(DST(n), n)] = ((IN(n) || HAS(m_reserve, n)) -> told[T(DST(n), n)] : 0); \
  told[T(a_src[n], n)] = ((OUT(n) || HAS(m_start, n) || HAS(m_reserve, n)) -> told[T(a_src[n], n)] : 0);
#define TIDY_ALL d_step { EACH_ATTEMPT(TIDY) unasked = (unasked == s_open -> unasked : 0) }
