#include "server/notify.h"

#include <string.h>

#include "base/buf.h"
#include "server/subscribe.h"

void notify_key(struct server *s, unsigned event_class, const char *event, struct slice key, uint16_t db)
{
    unsigned wanted = (unsigned)CONFIG_NUM(s->config, notify_keyspace_events);
    if (likely(!(wanted & event_class))) return;
    struct buf channel = {0};
    if (wanted & NOTIFY_KEYSPACE) {
        buf_printf(&channel, "__keyspace@%u__:", db);
        buf_add_slice(&channel, key);
        subscribe_publish(s, SUBSCRIBE_CHANNEL, buf_slice(&channel), slice_str(event));
    }
    if (wanted & NOTIFY_KEYEVENT) {
        channel.len = 0;
        buf_printf(&channel, "__keyevent@%u__:%s", db, event);
        subscribe_publish(s, SUBSCRIBE_CHANNEL, buf_slice(&channel), key);
    }
    buf_fini(&channel);
}

unsigned notify_wanted(const struct server *s)
{
    unsigned wanted = (unsigned)CONFIG_NUM(s->config, notify_keyspace_events), channels = NOTIFY_KEYSPACE | NOTIFY_KEYEVENT;
    return wanted & channels ? wanted & ~channels : 0;
}

static void from_command(void *ctx, struct exec *x, unsigned event_class, const char *event, struct slice key, uint16_t db)
{
    notify_key(ctx, event_class, event, key, db);
}

static void from_expiry(void *ctx, uint16_t db, struct slice key) { notify_key(ctx, NOTIFY_EXPIRED, "expired", key, db); }

void notify_install(struct server *s)
{
    s->engine->host = (struct exec_host){.notify = from_command, .ctx = s};
    for (uint32_t i = 0; i < s->engine->route.shards; i++) {
        s->engine->stores[i]->on_expire = from_expiry;
        s->engine->stores[i]->on_expire_ctx = s;
    }
}
