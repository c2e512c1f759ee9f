/* Names to addresses without making the asker wait: the system's resolver may take seconds, so names are looked up in a thread of their own. */
#pragma once
#include <sys/socket.h>

struct resolve;

struct resolve_address {
    socklen_t n;
    struct sockaddr_storage a;
};

/* Begins to look up "host:port". Numeric addresses are known at once. */
struct resolve *resolve_new(const char *address);
/* 0: not known yet. 1: the first address that was found. Negative: -EINVAL not of the form host:port, -EHOSTUNREACH no such name. Any number of times. */
int resolve_look(struct resolve *r, struct resolve_address *out);
/* Also while it is looking. NULL is allowed. */
void resolve_free(struct resolve *r);
