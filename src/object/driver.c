#include "object/driver.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/mem.h"

void driver_init(struct object_store *s, const struct object_driver *driver, const char *url, int conditions)
{
    s->driver = driver;
    s->url = mem_strdup(url);
    for (size_t n = strlen(url); n > 0 && s->url[n - 1] == '/'; n--) s->url[n - 1] = '\0';
    atomic_init(&s->conditions, conditions);
}

void driver_fini(struct object_store *s)
{
    mem_free(s->url);
    s->url = NULL;
}

int driver_fail(struct object_call *call, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(call->detail, sizeof call->detail, fmt, ap);
    va_end(ap);
    for (char *p = call->detail; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = ' ';
    return code;
}

void driver_random_hex(char out[33])
{
    unsigned char bytes[16];
    CHECK(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}
