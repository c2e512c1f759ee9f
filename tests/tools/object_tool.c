/* The object store interface on the command line, for the integration tests.
 *
 *     object_tool [OPTION VALUE | FLAG]... URL COMMAND [ARGUMENT]...
 *
 * Keys in its output are percent-encoded. A failure is one line on standard error, "ERR_NAME: text: detail", and exit status 1. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/awssign.h"
#include "object/object.h"

struct tool {
    struct object_store *store;
    struct object_call call;
    struct object_put_options put;
    struct object_list_options list;
    atomic_bool cancel;
    uint64_t cancel_after; /* bytes moved */
    bool show_progress;
    uint64_t most_moved;
    char **args;
};

static int report(struct tool *t, int rc)
{
    if (rc < 0) fprintf(stderr, "%s: %s: %s\n", err_name(rc), err_text(rc), t->call.detail);
    return rc < 0;
}

static void on_progress(void *arg, uint64_t bytes)
{
    struct tool *t = arg;
    if (bytes > t->most_moved) t->most_moved = bytes;
    if (t->cancel_after && bytes >= t->cancel_after) atomic_store(&t->cancel, true);
}

static void print_meta(const struct object_meta *m) { printf("%llu %s %lld\n", (unsigned long long)m->size, m->etag[0] ? m->etag : "-", (long long)m->modified_ms); }

static void read_all(int fd, struct buf *out)
{
    for (ssize_t n; (n = read(fd, buf_room(out, 1 << 16), 1 << 16)) > 0;) out->len += (size_t)n;
}

static void write_all(const char *p, size_t n)
{
    CHECK(fwrite(p, 1, n, stdout) == n);
}

/* ---- commands */

static int do_put(struct tool *t)
{
    struct buf in = {0};
    struct object_meta m;
    read_all(0, &in);
    int rc = object_put(t->store, &t->call, t->args[0], buf_slice(&in), &t->put, &m);
    buf_fini(&in);
    if (rc == 0) print_meta(&m);
    return report(t, rc);
}

static int do_put_file(struct tool *t)
{
    struct object_meta m;
    int fd = strcmp(t->args[1], "-") == 0 ? 0 : open(t->args[1], O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    int rc = object_put_fd(t->store, &t->call, t->args[0], fd, t->put.content_type, &m);
    if (fd > 0) close(fd);
    if (rc == 0) print_meta(&m);
    return report(t, rc);
}

static ssize_t failing_source(void *arg, void *p, size_t n)
{
    uint64_t *left = arg;
    if (*left == 0) return -EIO;
    if (n > *left) n = (size_t)*left;
    memset(p, 'x', n);
    *left -= n;
    return (ssize_t)n;
}

/* A stream that breaks after so many bytes. */
static int do_put_broken(struct tool *t)
{
    uint64_t left = strtoull(t->args[1], NULL, 10);
    struct object_source source = {.read = failing_source, .arg = &left};
    return report(t, object_put_stream(t->store, &t->call, t->args[0], &source, NULL, NULL));
}

static int do_get(struct tool *t)
{
    struct buf out = {0};
    uint64_t max = t->args[1] ? strtoull(t->args[1], NULL, 10) : UINT64_MAX;
    int rc = object_get(t->store, &t->call, t->args[0], max, &out, NULL);
    if (rc == 0) write_all(out.p, out.len);
    buf_fini(&out);
    return report(t, rc);
}

static int do_range(struct tool *t)
{
    uint64_t at = strtoull(t->args[1], NULL, 10);
    size_t n = strtoull(t->args[2], NULL, 10);
    char *p = mem_alloc(n);
    ssize_t rc = object_get_range(t->store, &t->call, t->args[0], p, n, at, NULL);
    if (rc > 0) write_all(p, (size_t)rc);
    mem_free(p);
    return report(t, (int)rc);
}

static int do_get_file(struct tool *t)
{
    struct object_meta m;
    int fd = open(t->args[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    int rc = object_get_fd(t->store, &t->call, t->args[0], fd, &m);
    close(fd);
    if (rc == 0) print_meta(&m);
    return report(t, rc);
}

static int do_head(struct tool *t)
{
    struct object_meta m;
    int rc = object_head(t->store, &t->call, t->args[0], &m);
    if (rc == 0) print_meta(&m);
    return report(t, rc);
}

static int print_item(void *arg, const struct object_item *item)
{
    struct buf key = {0};
    awssign_encode(&key, slice_str(item->key), true);
    printf("%.*s%s", (int)key.len, key.p, item->is_prefix ? "\n" : " ");
    if (!item->is_prefix) print_meta(&item->meta);
    buf_fini(&key);
    return 0;
}

static int do_list(struct tool *t) { return report(t, object_list(t->store, &t->call, &t->list, print_item, NULL)); }

static int do_delete(struct tool *t)
{
    size_t n = 0, failed;
    while (t->args[n]) n++;
    int rc = object_delete(t->store, &t->call, (const char *const *)t->args, n, &failed);
    printf("%zu failed\n", failed);
    return report(t, rc);
}

static int do_probe(struct tool *t)
{
    int rc = object_probe_conditions(t->store, &t->call);
    if (rc >= 0) printf("%d\n", rc);
    return report(t, rc);
}

/* Several threads on one store, each with keys of its own. */
struct client {
    struct object_store *store;
    unsigned number, rounds, failures;
};

static void *run_client(void *arg)
{
    struct client *c = arg;
    char key[40], bytes[200], back[200];
    for (unsigned i = 0; i < c->rounds; i++) {
        snprintf(key, sizeof key, "stress/%u/%u", c->number, i);
        memset(bytes, (int)('a' + (c->number + i) % 26), sizeof bytes);
        if (object_put(c->store, NULL, key, slice_of(bytes, sizeof bytes), NULL, NULL) != 0) c->failures++;
        if (object_get_range(c->store, NULL, key, back, sizeof back, 0, NULL) != (ssize_t)sizeof back || memcmp(bytes, back, sizeof back) != 0) c->failures++;
        if (object_delete(c->store, NULL, (const char *const[]){key}, 1, NULL) != 0) c->failures++;
    }
    return NULL;
}

static int do_stress(struct tool *t)
{
    enum { CLIENTS_MAX = 16 };
    struct client clients[CLIENTS_MAX];
    pthread_t threads[CLIENTS_MAX];
    unsigned n = (unsigned)atoi(t->args[0]), failures = 0;
    CHECK(n <= CLIENTS_MAX);
    for (unsigned i = 0; i < n; i++) {
        clients[i] = (struct client){.store = t->store, .number = i, .rounds = (unsigned)atoi(t->args[1])};
        CHECK(pthread_create(&threads[i], NULL, run_client, &clients[i]) == 0);
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        failures += clients[i].failures;
    }
    printf("%u failures\n", failures);
    return failures != 0;
}

/* Adds 1 to a number in an object, so many times, by if-match: what several of these do at once must add up. */
static int do_count(struct tool *t)
{
    for (long left = atol(t->args[1]); left > 0;) {
        struct buf now = {0};
        struct object_meta m;
        int rc = object_get(t->store, &t->call, t->args[0], 100, &now, &m);
        if (rc != 0 && rc != ERR_OBJECT_NOT_FOUND) return report(t, rc);
        buf_add_byte(&now, '\0');
        char next[32];
        int n = snprintf(next, sizeof next, "%ld", (rc == 0 ? atol(now.p) : 0) + 1);
        buf_fini(&now);
        struct object_put_options o = {.condition = rc == 0 ? OBJECT_IF_MATCH : OBJECT_IF_ABSENT, .etag = m.etag};
        rc = object_put(t->store, &t->call, t->args[0], slice_of(next, (size_t)n), &o, NULL);
        if (rc == 0) left--;
        else if (rc != ERR_OBJECT_PRECONDITION) return report(t, rc);
    }
    return 0;
}

static const struct {
    const char *name;
    int arguments;
    int (*run)(struct tool *t);
} commands[] = {
    {"put", 1, do_put},       {"put-file", 2, do_put_file}, {"put-broken", 2, do_put_broken}, {"get", 1, do_get},
    {"range", 3, do_range},   {"get-file", 2, do_get_file}, {"head", 1, do_head},             {"list", 0, do_list},
    {"delete", 1, do_delete}, {"probe", 0, do_probe},       {"stress", 2, do_stress},         {"count", 2, do_count},
};

/* ---- options */

static bool take_flag(struct tool *t, struct object_options *o, const char *name)
{
    if (strcmp(name, "--anonymous") == 0) return o->anonymous = true;
    if (strcmp(name, "--no-checksums") == 0) return o->no_checksums = true;
    if (strcmp(name, "--insecure") == 0) return o->insecure_tls = true;
    if (strcmp(name, "--folders") == 0) return t->list.by_folder = true;
    if (strcmp(name, "--progress") == 0) return t->show_progress = true;
    if (strcmp(name, "--if-absent") == 0) {
        t->put.condition = OBJECT_IF_ABSENT;
        return true;
    }
    return false;
}

static bool take_option(struct tool *t, struct object_options *o, const char *name, const char *value)
{
    uint32_t number = (uint32_t)strtoul(value, NULL, 10);
    if (strcmp(name, "--endpoint") == 0) o->endpoint = value;
    else if (strcmp(name, "--region") == 0) o->region = value;
    else if (strcmp(name, "--access-key") == 0) o->access_key = value;
    else if (strcmp(name, "--secret-key") == 0) o->secret_key = value;
    else if (strcmp(name, "--profile") == 0) o->profile = value;
    else if (strcmp(name, "--ca-file") == 0) o->ca_file = value;
    else if (strcmp(name, "--style") == 0) o->style = strcmp(value, "virtual") == 0 ? OBJECT_STYLE_VIRTUAL : OBJECT_STYLE_PATH;
    else if (strcmp(name, "--attempts") == 0) o->attempts_max = number;
    else if (strcmp(name, "--backoff-ms") == 0) o->backoff_ms = number;
    else if (strcmp(name, "--stall-ms") == 0) o->stall_timeout_ms = number;
    else if (strcmp(name, "--part-bytes") == 0) o->part_bytes = number;
    else if (strcmp(name, "--parallel") == 0) o->parallel = number;
    else if (strcmp(name, "--type") == 0) t->put.content_type = value;
    else if (strcmp(name, "--prefix") == 0) t->list.prefix = value;
    else if (strcmp(name, "--after") == 0) t->list.start_after = value;
    else if (strcmp(name, "--page") == 0) t->list.page = number;
    else if (strcmp(name, "--cancel-after") == 0) t->cancel_after = number;
    else if (strcmp(name, "--if-match") == 0) {
        t->put.condition = OBJECT_IF_MATCH;
        t->put.etag = value;
    } else return false;
    return true;
}

static int run(struct tool *t, const char *name)
{
    int count = 0;
    while (t->args[count]) count++;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, name) == 0 && count >= commands[i].arguments) return commands[i].run(t);
    fprintf(stderr, "object_tool: no such command, or too few arguments: %s\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    struct tool t = {0};
    struct object_options o = {0};
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (take_flag(&t, &o, argv[i])) continue;
        if (i + 1 < argc && take_option(&t, &o, argv[i], argv[i + 1])) i++;
        else return fprintf(stderr, "object_tool: option %s\n", argv[i]), 2;
    }
    if (argc - i < 2) return fprintf(stderr, "usage: object_tool [OPTION]... URL COMMAND [ARGUMENT]...\n"), 2;
    t.call = (struct object_call){.cancel = &t.cancel, .progress = on_progress, .progress_arg = &t};
    t.args = argv + i + 2;
    int rc = object_open(&t.store, argv[i], &o, t.call.detail);
    if (rc) return report(&t, rc);
    int status = run(&t, argv[i + 1]);
    if (t.show_progress) printf("moved %llu\n", (unsigned long long)t.most_moved);
    object_close(t.store);
    return status;
}
