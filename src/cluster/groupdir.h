/* The folder of group snapshots: what its files are called, which are there, which may go.
 *
 *     g<group>-<index>-<term>.snap                      a whole one (cluster/groupsnap.h): the name promises that
 *     g<group>-<index>-<term>.snap.new                  being written, or never was to its end
 *     g<group>-<index>-<term>-<checksum>-<bytes>.part   on its way from another node (cluster/snapfetch.h); checksum in 16 hex digits
 *
 * Other files are left alone. Functions give 0 or a count, or -errno; paths are borrowed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct file_ops;

enum { GROUPDIR_PATH_MAX = 4096, GROUPDIR_NAME_MAX = 128 /* the longest is shorter */ };

enum groupdir_kind { GROUPDIR_SNAPSHOT, GROUPDIR_UNFINISHED, GROUPDIR_PART };

struct groupdir_file {
    enum groupdir_kind kind;
    uint32_t group;
    uint64_t index, term;     /* of the last entry in it */
    uint64_t checksum, bytes; /* GROUPDIR_PART: of the whole; else 0 */
};

void groupdir_name(char name[GROUPDIR_NAME_MAX], const struct groupdir_file *f); /* without a folder */
/* -ENAMETOOLONG if there is no room. */
int groupdir_path(char path[GROUPDIR_PATH_MAX], const char *dir, const struct groupdir_file *f);
/* False: no name that groupdir_path makes. */
bool groupdir_parse(const char *name, struct groupdir_file *f);

struct groupdir_list { /* mem_free(v) */
    struct groupdir_file *v;
    uint32_t n;
};
/* All files of all groups: by group, then newest first. A missing folder is an empty one. */
int groupdir_list(const struct file_ops *files, const char *dir, struct groupdir_list *out);

/* ---- deleting; what could not be deleted does not keep the rest from going, and the first error is given */

/* The group's whole snapshots before this index. */
int groupdir_drop_before(const struct file_ops *files, const char *dir, uint32_t group, uint64_t index);
/* The group's partial files, but for the one called `but` (NULL: none is kept). */
int groupdir_drop_parts(const struct file_ops *files, const char *dir, uint32_t group, const struct groupdir_file *but);
/* Everything of the group: its replica is gone from this node. */
int groupdir_drop_group(const struct file_ops *files, const char *dir, uint32_t group);
/* At start, before anything is written here: what is unfinished, partial files that are not newer than a whole one of their group, and everything of groups other than these, the n that the log has. */
int groupdir_sweep(const struct file_ops *files, const char *dir, const uint32_t *groups, uint32_t n);
