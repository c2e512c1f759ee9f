/* DEBUG, the part that looks into the stores or changes them. All tokens are held. Rows are in debug.c. */
#pragma once
#include "command/command.h"

void debug_data_object(struct exec *x);       /* OBJECT key */
void debug_data_listpack(struct exec *x);     /* LISTPACK key */
void debug_data_digest(struct exec *x);       /* DIGEST */
void debug_data_digest_value(struct exec *x); /* DIGEST-VALUE key ... */
void debug_data_htstats(struct exec *x);      /* HTSTATS db */
void debug_data_htstats_key(struct exec *x);  /* HTSTATS-KEY key */
void debug_data_populate(struct exec *x);     /* POPULATE count [prefix [size]] */
void debug_data_chill(struct exec *x);        /* CHILL [key ...]: values go to the cold tier, and from its buffers to disk */
void debug_data_system(struct exec *x);       /* SYSTEM shard key [value [ms]]: a record of the system database, read or written */
void debug_data_reload(struct exec *x);       /* RELOAD [option ...], LOADAOF */
