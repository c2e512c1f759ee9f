#include "cluster/once.h"

#include "base/buf.h"
#include "base/keyhash.h"
#include "base/le.h"
#include "shard/task.h"
#include "store/store.h"

enum { KEY_MAX = 64, HEAD = 17 };

static char *put_hex(char *p, uint64_t v)
{
    int digits = v ? (67 - __builtin_clzll(v)) / 4 : 1;
    for (int i = digits; i-- > 0; v >>= 4) p[i] = "0123456789abcdef"[v & 15];
    return p + digits;
}

/* once/NODE-FRONT-SLOT. Twice for every write of another node: not by printf. */
static struct slice key_of(const struct ticket *t, char *room)
{
    static const char name[] = "once/";
    memcpy(room, name, sizeof name - 1);
    char *p = put_hex(room + sizeof name - 1, t->node);
    *p++ = '-';
    p = put_hex(p, t->front);
    *p++ = '-';
    return slice_of(room, (size_t)(put_hex(p, t->slot) - room));
}

enum once_state once_look(struct store *s, const struct ticket *t, struct slice *reply)
{
    char room[KEY_MAX];
    struct slice key = key_of(t, room);
    struct place at;
    store_peek(s, STORE_SYSTEM_DB, keyhash(key, s->seed), key, &at);
    if (!at.e) return ONCE_NEW;
    struct slice value = entry_value(at.e);
    CHECK(value.n >= HEAD);
    uint64_t session = le_u64(value.p), seq = le_u64(value.p + 8);
    if (session != t->session || seq < t->seq) return ONCE_NEW;
    if (seq > t->seq) return ONCE_LATE;
    if (!value.p[HEAD - 1]) return ONCE_FORGOTTEN;
    *reply = slice_of(value.p + HEAD, value.n - HEAD);
    return ONCE_HAPPENED;
}

void once_note(struct store *s, const struct ticket *t, struct slice reply)
{
    char room[KEY_MAX], value[HEAD + ONCE_REPLY_MAX];
    struct slice key = key_of(t, room);
    struct place at;
    bool kept = reply.n <= ONCE_REPLY_MAX;
    le_set_u64(value, t->session);
    le_set_u64(value + 8, t->seq);
    value[HEAD - 1] = kept;
    if (kept && reply.n) memcpy(value + HEAD, reply.p, reply.n);
    store_peek(s, STORE_SYSTEM_DB, keyhash(key, s->seed), key, &at);
    store_apply(s, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = key, .value = slice_of(value, HEAD + (kept ? reply.n : 0))}, &at);
}
