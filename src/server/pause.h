/* CLIENT PAUSE: commands wait until a moment. Shared by all fronts; a connection that is held stays with its front, which asks again. */
#pragma once
#include "server/conn.h"

bool pause_active(const struct server *s);
bool pause_holds(const struct conn *c, const struct command *cmd);
/* A pause does not shorten another one, nor does a pause of writes end one of everything. */
void pause_start(struct server *s, int64_t until_ms, bool writes_only);
void pause_end(struct server *s);
