/* May this request run now? Everything that stands between a parsed request and its shards: authentication, transactions, subscriber mode,
 * loading, memory, pauses. */
#pragma once
#include "server/conn.h"

enum admit_result {
    ADMIT_RUN,       /* together with its neighbours */
    ADMIT_RUN_ALONE, /* it may change what the rest of the pipeline depends on */
    ADMIT_ANSWERED,  /* refused with an error, or queued: the answer is in the output */
    ADMIT_WAIT,      /* paused */
};

enum admit_flaw { ADMIT_FLAW_UNKNOWN = 1, ADMIT_FLAW_ARITY };

/* With `first` false it only tells whether the request may join the run before it (ADMIT_RUN) and does nothing else. */
enum admit_result admit_request(struct conn *c, struct request *r, bool first);

/* What the parser may accept from this client. */
struct parse_limits admit_limits(const struct conn *c);
