/* The server's durability in numbers: the log, the dumps, the disk below them. For INFO persistence and HEALTH. Any thread. */
#pragma once
#include "base/buf.h"
#include "server/health.h"
#include "server/server.h"

/* Changes that the stores have taken since the data was loaded. */
uint64_t durability_changes(const struct server *s);

/* What HEALTH judges. */
void durability_facts(struct server *s, struct health_facts *out);

/* The lines of INFO persistence, but for those about loading. */
void durability_info(struct server *s, struct buf *out);
