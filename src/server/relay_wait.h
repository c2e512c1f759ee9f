/* Commands that wait (BLPOP and its kin) in a cluster: relay_wait.c has the side of the client, relay_stay.c that of the leader. relay_wait.c says how they work together. */
#pragma once
#include "server/relay_parts.h"

/* ---- relay_wait.c: a front's thread. What connections call is in server/relay.h. */

bool relay_wait_is(uint64_t id); /* the number of a message is that of a command that waits */
void relay_wait_answered(struct relay_front *rf, uint64_t from, const struct wirecall_answer *a);
void relay_wait_peer_down(struct relay_front *rf, uint64_t peer);
void relay_wait_wake(struct relay_front *rf); /* somebody can be reached again, or there is another map */
void relay_wait_time(struct relay_front *rf, int64_t now_ms);
void relay_wait_fini(struct relay_front *rf);

/* Of a stay on this front: what it would have sent. status DONE has the reply, WAITS the time-out. */
void relay_wait_told(struct relay_wait *w, enum wirecall_status status, struct slice reply);

/* ---- relay_stay.c: a front's thread */

struct relay_wait_command {
    uint32_t group, argc;
    const struct slice *argv;
    uint16_t db;
    uint8_t resp;
    bool no_touch;
};

/* The command of a client of this front. The arguments are copied. NULL: it is over already, and was told. */
struct stay *relay_stay_begin(struct relay_front *rf, const struct relay_wait_command *c, struct relay_wait *asker);
/* Its client does not want to wait any more. True: it is gone, nothing was done. False: it is being served right now; ask again, or be told. */
bool relay_stay_leave(struct stay *s);
void relay_stay_forget(struct stay *s); /* and does not want to be told either */

/* A message of another node with one of RELAY_WAITS. Takes l. */
void relay_stay_message(struct relay_front *rf, struct relay_letter *l, const struct wirecall_request *call, const struct slice *argv);
void relay_stay_peer_down(struct relay_front *rf, uint64_t peer);
void relay_stay_news(struct relay_front *rf); /* some hold may have its outcome */
void relay_stay_mapped(struct relay_front *rf); /* another map is in force: keys may be elsewhere */
void relay_stay_time(struct relay_front *rf, int64_t now_ms);
void relay_stay_fini(struct relay_front *rf);

enum { RELAY_WAIT_TIMEOUT_BYTES = 8 }; /* of the reply of WAITS: milliseconds, 0 for ever */
