/* A disk in memory for tests: files that forget at a crash what was not synced, and calls that fail on demand. All by seed, so a run can be had again.
 *
 * What a power loss leaves: of the changes of a file since its last sync each may be there, missing or, if it is a write, there in part; a
 * gap that a lost write leaves is zeros. Names made, renamed or deleted since the last sync of their directory are changed up to some point in order of their making. After
 * a failed sync, changes that it should have made durable may be lost for good, though reads still show them: later syncs do not bring them back.
 *
 * One thread. The directories above `root` are taken to exist. */
#pragma once
#include <stdbool.h>

#include "io/file.h"

struct file_sim;

struct file_sim *file_sim_new(const char *root, uint64_t seed);
void file_sim_free(struct file_sim *s);
const struct file_ops *file_sim_ops(struct file_sim *s); /* lives as long as s */
void file_sim_commit_together(struct file_sim *s, bool on); /* its commit has the files written and synced in any order (at first), or it has none */

/* Calls that change something (open for creating, write, truncate, sync, sync_dir, rename, unlink, mkdir) are counted from 1. */
uint64_t file_sim_calls(const struct file_sim *s);

struct file_sim_faults {
    uint64_t fail_at;      /* this changing call fails (0: none), a write after a part of it, a sync losing bytes */
    int fail_errno;        /* with this */
    uint64_t power_off_at; /* this changing call and all later ones do nothing and fail (0: never) */
    bool short_writes;     /* writes often do only a part */
    uint64_t space_bytes;  /* all files together; a write past it does what fits, then fails with -ENOSPC (0: no limit) */
};
void file_sim_set_faults(struct file_sim *s, struct file_sim_faults f);

/* The machine starts again: all descriptors are gone, faults are off. power: power was lost; else only the process died and nothing written is lost. */
void file_sim_crash(struct file_sim *s, bool power);

/* The bytes of a file, to look at or to damage (bytes may change, and len may shrink); NULL: no such file. Damage is durable from the next crash of the process on. */
struct buf *file_sim_bytes(struct file_sim *s, const char *path);
