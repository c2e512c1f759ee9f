/* Dumps as the server sees them: made with its options, told in its log, asked for by SAVE, BGSAVE and BGREWRITEAOF. */
#pragma once
#include "shard/dumper.h"

struct server;

/* Makes s->dumper; s->journal and s->wal are there. Borrows layout, the folder, and past. */
void saves_open(struct server *s, const char *layout, const struct dumper_past *past);
void saves_apply_config(struct server *s); /* options may have changed */
