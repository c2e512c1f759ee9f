#include "cluster/snapcore.h"

#include "base/clock.h"
#include "base/mem.h"

enum { TRAILING = 4096 };

void snapcore_init(struct snapcore *c, const struct snaphost_options *options)
{
    *c = (struct snapcore){.o = *options};
    c->o.dir = mem_strdup(options->dir);
    if (!c->o.trailing) c->o.trailing = TRAILING;
    snapshelf_init(&c->shelf);
    pthread_mutex_init(&c->lock, NULL);
}

void snapcore_fini(struct snapcore *c)
{
    snapshelf_fini(&c->shelf);
    pthread_mutex_destroy(&c->lock);
    buf_fini(&c->why);
    mem_free((char *)c->o.dir);
}

void snapcore_fail(struct snapcore *c, uint32_t group, const char *fmt, ...)
{
    va_list ap;
    if (atomic_exchange(&c->failed, true)) return;
    va_start(ap, fmt);
    buf_vprintf(&c->why, fmt, ap);
    va_end(ap);
    buf_add_byte(&c->why, 0);
    slog(c->o.log, SLOG_WARNING, "a group cannot go on from its snapshot", "group=%u folder=%s reason=%s", group, c->o.dir, c->why.p);
    c->o.failed(c->o.ctx, c->why.p);
}

uint64_t snapcore_ms(void) { return (uint64_t)clock_mono_us() / 1000; }
