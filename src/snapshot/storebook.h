/* The object stores that one reader uses: the snapshot's own, and those of other buckets and folders in which its shards lie. Opened when first needed, kept until the end. Any number of threads. */
#pragma once
#include "object/object.h"

struct storebook;

/* Keeps options, and the store, which the caller closes afterwards. */
struct storebook *storebook_new(struct object_store *own, const struct object_options *options);
void storebook_free(struct storebook *b); /* NULL is allowed */

/* Where the shard folder of a manifest lies: the store and its key there, which points into url. prefix is the manifest's s3_prefix (snappath_key has the rule). 0, or an error and why. */
int storebook_find(struct storebook *b, const char *prefix, const char *url, struct object_store **store, const char **key, struct buf *why);
