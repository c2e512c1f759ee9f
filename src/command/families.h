/* The command families of src/command/. Each file exports its rows. */
#pragma once
#include "command/command.h"

extern const struct command_family strings_family;  /* strings.c: GET SET ... */
extern const struct command_family keys_family;     /* keys.c: DEL EXISTS RENAME COPY TYPE SCAN KEYS ... */
extern const struct command_family groups_family;   /* groups.c: those of a Raft group, over all of its keys */
extern const struct command_family expiry_family;   /* expiry.c: EXPIRE TTL ... */
extern const struct command_family lists_family;    /* lists.c */
extern const struct command_family hashes_family;   /* hashes.c */
extern const struct command_family sets_family;     /* sets.c */
extern const struct command_family zsets_family;    /* zsets.c */
extern const struct command_family zranges_family;  /* zranges.c: ZRANGE in all forms, ZRANGESTORE, ... */
extern const struct command_family zpops_family;    /* zpops.c: ZPOPMIN ZMPOP BZPOPMIN ... */
extern const struct command_family zstores_family;  /* zstores.c: ZUNION ZINTER ZDIFF, ZUNIONSTORE ... */
extern const struct command_family bits_family;     /* bits.c: SETBIT BITFIELD ... */
extern const struct command_family hll_family;      /* hll.c: PFADD ... */
extern const struct command_family sort_family;     /* sort.c: SORT SORT_RO */
extern const struct command_family restore_family;  /* restore.c: DUMP RESTORE */
