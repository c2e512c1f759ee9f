/* CLIENT, and the texts that describe a connection. Called on the connection's own front. */
#pragma once
#include "server/conn.h"

/* False, and the error is answered, if this cannot be the name of a client: blanks and control bytes would break CLIENT LIST. */
bool clients_check_name(struct exec *x, struct slice name);
/* Sets c->name, c->lib_name or c->lib_ver; an empty text is none. */
void clients_set_text(struct conn *c, char **which, struct slice text);
