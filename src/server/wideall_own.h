/* What commands over all keys have in common: those that ask all groups at once (wideall.c), and SCAN (widescan.c). */
#pragma once
#include "base/buf.h"
#include "command/exec.h"
#include "server/wide_own.h"
#include "server/wideall.h"
#include "shard/engine.h"

struct wideall {
    struct wideall_host host;
    const struct slice *argv;
    uint32_t argc;
    uint8_t resp;
    int64_t until_ms;
    uint64_t waits_for; /* a version of the map; 0: it waits for answers */
    bool (*settle)(struct wideall *w, const struct txn_answer *answers, uint32_t n, struct reply *out); /* as wideall_answered */
    bool (*go_on)(struct wideall *w, struct reply *out); /* asks again, unless it is late: as wideall_answered */
    void (*free)(struct wideall *w);
};

const struct space_map *wideall_map(const struct wideall *w); /* NULL: nobody knows yet */
bool wideall_is_late(const struct wideall *w);
/* Goes on as soon as this node's map is of that version: as wideall_answered. */
bool wideall_go_on_by(struct wideall *w, uint64_t version, struct reply *out);
void wideall_send(const struct wideall *w, const struct txn_request *requests, uint32_t n); /* with the time that is left */

struct wideall *widescan_new(const struct wideall *base, struct exec *x); /* copies base; NULL: it is answered already */
