#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *p, size_t bytes)
{
    if (p || bytes == 0) return p;
    fprintf(stderr, "sherd: out of memory asking for %zu bytes\n", bytes);
    abort();
}

void *mem_alloc(size_t bytes) { return or_die(malloc(bytes), bytes); }
void *mem_zalloc(size_t bytes) { return or_die(calloc(1, bytes), bytes); }
void *mem_resize(void *p, size_t bytes) { return or_die(realloc(p, bytes), bytes); }
void mem_free(void *p) { free(p); }

void *mem_dup(const void *p, size_t bytes)
{
    void *copy = mem_alloc(bytes ? bytes : 1);
    if (bytes) memcpy(copy, p, bytes);
    return copy;
}

char *mem_strdup(const char *s) { return mem_dup(s, strlen(s) + 1); }
