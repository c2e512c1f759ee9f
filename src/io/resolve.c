#include "io/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/dial.h"

/* Shared by the asker and the thread that looks; whoever lets go last frees it. */
struct resolve {
    atomic_int holders;
    atomic_int result; /* as resolve_look gives it */
    char host[DIAL_HOST_MAX], port[16];
    struct resolve_address found; /* settled before result is 1 */
};

static void let_go(struct resolve *r)
{
    if (atomic_fetch_sub(&r->holders, 1) == 1) mem_free(r);
}

static int look_up(struct resolve *r, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found;
    if (getaddrinfo(r->host, r->port, &hints, &found)) return -EHOSTUNREACH;
    r->found.n = found->ai_addrlen;
    memcpy(&r->found.a, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 1;
}

static void *look_up_in_thread(void *arg)
{
    struct resolve *r = arg;
    atomic_store(&r->result, look_up(r, AI_ADDRCONFIG));
    let_go(r);
    return NULL;
}

static int start_thread(struct resolve *r)
{
    pthread_t thread;
    atomic_fetch_add(&r->holders, 1);
    int rc = pthread_create(&thread, NULL, look_up_in_thread, r);
    if (rc == 0) pthread_detach(thread);
    else let_go(r);
    return -rc;
}

struct resolve *resolve_new(const char *address)
{
    struct resolve *r = mem_zalloc(sizeof *r);
    const char *port;
    atomic_init(&r->holders, 1);
    if (!dial_split(address, r->host, &port) || strlen(port) >= sizeof r->port) {
        atomic_init(&r->result, -EINVAL);
        return r;
    }
    memcpy(r->port, port, strlen(port) + 1);
    if (look_up(r, AI_NUMERICHOST | AI_NUMERICSERV) == 1) atomic_init(&r->result, 1);
    else if (start_thread(r) < 0) atomic_store(&r->result, -EAGAIN);
    return r;
}

int resolve_look(struct resolve *r, struct resolve_address *out)
{
    int result = atomic_load(&r->result);
    if (result == 1) *out = r->found;
    return result;
}

void resolve_free(struct resolve *r)
{
    if (r) let_go(r);
}
