/* How much of everything a search looks at; each can be set with -D. */
#ifndef NATT
#define NATT 2        /* attempts, over all jobs: 1 to 3 */
#endif
#ifndef LOSSES
#define LOSSES 1      /* messages lost */
#endif
#ifndef DOUBLES
#define DOUBLES 1     /* messages that arrive twice, tokens that arrive late or twice */
#endif
#ifndef WCRASHES
#define WCRASHES 0    /* crashes of source and destination together */
#endif
#ifndef CCRASHES
#define CCRASHES 0    /* crashes of the coordinator */
#endif
#ifndef NTOK
#define NTOK 2        /* output tokens */
#endif
#ifndef SPURIOUS
#define SPURIOUS 0    /* Recover of an owner whose lease ran out although it lives */
#endif
#ifndef CANCELS
#define CANCELS 0     /* of the request, by its client */
#endif
#ifndef PRUNES
#define PRUNES 0      /* terminal job records that are forgotten */
#endif
#ifndef RESTORES
#define RESTORES 0    /* times the store goes back to an earlier state of itself */
#endif

#if NATT == 1
#define EACH_ATTEMPT(X) X(1)
#elif NATT == 2
#define EACH_ATTEMPT(X) X(1) X(2)
#else
#define EACH_ATTEMPT(X) X(1) X(2) X(3)
#endif
#define NSLOT (NATT + 1)
#define NEPOCH 10     /* epochs 1 to 9: two for a move that is rolled back, one for a Recover */
