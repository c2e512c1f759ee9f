/* The process heap. Out of memory aborts with a message: callers never see NULL.
 * Memory of a shard's keyspace does not come from here but from its arena (store/arena.h). */
#pragma once
#include <stddef.h>

void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes);
void *mem_resize(void *p, size_t bytes);
void *mem_dup(const void *p, size_t bytes);
char *mem_strdup(const char *s);
void mem_free(void *p);
