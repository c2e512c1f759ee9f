/* A light client, 127.0.0.1 only. Each connection owns a prebuilt batch of requests: it writes fresh key numbers into it, sends
 * it with one call, waits for exactly the reply bytes it must bring, notes how long that took, and starts again. So the client costs a fraction
 * of a microsecond per operation and the server, not the client, is what is measured.
 *
 * With --rate the loop is open instead: batches are due at even intervals, whatever the server does, and a latency counts from the moment that
 * the batch was due, so that a stall is charged with everything it delayed.
 *
 * A server may be several processes, with a port each: connections are spread over the ports. Servers speak the Redis protocol, or etcd's (etcd.h).
 *
 * Keys are "key:%010d", or with another prefix; every key must exist (run the workload `fill` first), because a reply's length is known beforehand.
 * Counting begins after the warm-up and ends before the last batches return. One line of JSON tells the result; any error reply, reply of a wrong
 * length, closed connection or stall of STALL_SECONDS ends the program with a message and status 1. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "etcd.h"

enum {
    KEY_DIGITS = 10,
    RECV_BYTES = 1 << 20,
    STALL_SECONDS = 10,
    THREADS_MAX = 64,
    PIDS_MAX = 8,
    HIST_STEPS = 64, /* per power of two: a latency is known within 1.6 % */
    HIST_BUCKETS = 60 * HIST_STEPS,
};
#define VALUE_SEED 0x9e3779b97f4a7c15u

enum workload { GET, SET, MIX, MGET, MSET, FILL };
static const char *const workload_names[] = {"get", "set", "mix", "mget", "mset", "fill"};

enum phase { WARMUP, MEASURE, STOP };

struct settings {
    uint16_t ports[PIDS_MAX];
    int n_ports;
    bool etcd;
    int threads, conns, pipeline, multi;
    long value_bytes;
    double seconds, warmup_seconds, max_seconds;
    double rate; /* operations per second of all threads; 0: as many as the server answers */
    uint64_t keys, first_key;
    const char *prefix; /* of every key */
    enum workload workload;
    bool distinct; /* a fill gives every key a value of its own */
    uint64_t *chosen; /* key numbers to choose from, instead of the interval; `keys` many */
    pid_t servers[PIDS_MAX], helpers[PIDS_MAX];
    int n_servers, n_helpers;
};

/* Requests ready to send. Only the key digits change. */
struct batch {
    char *bytes;
    size_t len, cap;
    size_t *digits; /* where each key's digits begin */
    int n_keys, n_ops;
    size_t reply_bytes;
    /* For etcd: two places of each request where its stream stands, and the bytes that must answer it. */
    size_t *streams;
    uint32_t *need;
};

struct conn {
    int fd;
    struct batch batch[2]; /* a mix without pipelining alternates between two */
    int n_batches, turn;
    size_t sent, received;
    uint64_t started_ns;
    bool busy;
    struct etcd_reader etcd;
};

struct shared {
    struct settings set;
    _Atomic int phase;
    _Atomic uint64_t next_key; /* fill */
};

struct thread {
    struct shared *shared;
    pthread_t id;
    int number;
    uint64_t random;
    uint64_t ops, batches, max_ns, max_at_op;
    uint32_t hist[2][HIST_BUCKETS]; /* by the batch's place in its connection: of a mix without pipelining SET, GET */
    struct conn *conns;
    int live;              /* connections that wait for replies */
    char *inbox;
    /* With a rate: when the next batch is due, and the connections that are free for it, longest free first. */
    uint64_t interval_ns, due_ns;
    struct conn **idle;
    int idle_first, n_idle;
};

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) die("memory", "none left");
    return p;
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- latency histogram */

static unsigned hist_index(uint64_t ns)
{
    if (ns < HIST_STEPS) return (unsigned)ns;
    unsigned e = 63u - (unsigned)__builtin_clzll(ns);
    return (e - 5) * HIST_STEPS + (unsigned)(ns >> (e - 6) & (HIST_STEPS - 1));
}

static double hist_us(unsigned i)
{
    if (i < HIST_STEPS) return i / 1e3;
    unsigned e = i / HIST_STEPS + 5;
    return (double)(HIST_STEPS + i % HIST_STEPS) * (double)(1ull << (e - 6)) / 1e3;
}

static double quantile_us(const uint64_t *hist, uint64_t total, double q)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += hist[i];
        if (seen && (double)seen >= q * (double)total) return hist_us(i);
    }
    return 0;
}

/* ---- batches */

static void batch_add(struct batch *b, const void *p, size_t n)
{
    if (b->cap - b->len < n) {
        b->cap = (b->cap + n) * 2;
        b->bytes = realloc(b->bytes, b->cap);
        if (!b->bytes) die("memory", "none left");
    }
    memcpy(b->bytes + b->len, p, n);
    b->len += n;
}

static void batch_text(struct batch *b, const char *s) { batch_add(b, s, strlen(s)); }

static void batch_key(struct batch *b, const char *prefix)
{
    char head[32];
    batch_add(b, head, (size_t)sprintf(head, "$%zu\r\n", strlen(prefix) + KEY_DIGITS));
    batch_text(b, prefix);
    b->digits[b->n_keys++] = b->len;
    batch_text(b, "0000000000\r\n");
}

static void write_letters(char *p, long bytes, uint64_t z)
{
    for (long i = 0; i < bytes; i++) {
        z ^= z << 13, z ^= z >> 7, z ^= z << 17;
        p[i] = "abcdefghijklmnopqrstuvwxyz012345"[z >> 59];
    }
}

/* Values do not compress to nothing and are the same for every key. */
static void batch_value(struct batch *b, long bytes)
{
    char head[32], *letters = allocate((size_t)bytes + 1);
    batch_add(b, head, (size_t)sprintf(head, "$%ld\r\n", bytes));
    write_letters(letters, bytes, VALUE_SEED);
    batch_add(b, letters, (size_t)bytes);
    batch_text(b, "\r\n");
    free(letters);
}

static void batch_request(struct batch *b, enum workload what, const struct settings *s)
{
    char head[64];
    int multi = what == MGET || what == MSET ? s->multi : 1;
    bool read = what == GET || what == MGET;
    size_t value_reply = (size_t)sprintf(head, "$%ld\r\n", s->value_bytes) + (size_t)s->value_bytes + 2;
    const char *verb = what == GET ? "$3\r\nGET" : what == SET ? "$3\r\nSET" : what == MGET ? "$4\r\nMGET" : "$4\r\nMSET";
    batch_add(b, head, (size_t)sprintf(head, "*%d\r\n%s\r\n", 1 + multi * (read ? 1 : 2), verb));
    for (int i = 0; i < multi; i++) {
        batch_key(b, s->prefix);
        if (!read) batch_value(b, s->value_bytes);
    }
    b->reply_bytes += read ? value_reply * (size_t)multi : strlen("+OK\r\n");
    if (what == MGET) b->reply_bytes += (size_t)sprintf(head, "*%d\r\n", multi);
    b->n_ops++;
}

static void batch_etcd_request(struct batch *b, enum workload what, const struct settings *s)
{
    size_t prefix = strlen(s->prefix), n = (size_t)s->value_bytes;
    char *out = allocate(ETCD_OVERHEAD + prefix + KEY_DIGITS + n), *key = allocate(prefix + KEY_DIGITS + 1), *value = allocate(n + 1);
    memcpy(key, s->prefix, prefix);
    write_letters(value, s->value_bytes, VALUE_SEED);
    struct etcd_request r = etcd_write(out, key, prefix + KEY_DIGITS, what == SET ? value : NULL, n);
    for (int i = 0; i < 2; i++) b->streams[2 * b->n_ops + i] = b->len + r.stream_at[i];
    b->need[b->n_ops++] = r.reply_min;
    b->digits[b->n_keys++] = b->len + r.key_at + prefix;
    batch_add(b, out, r.len);
    free(out);
    free(key);
    free(value);
}

static void batch_init(struct batch *b, const struct settings *s, enum workload even, enum workload odd)
{
    b->digits = allocate(sizeof *b->digits * (size_t)s->pipeline * (size_t)s->multi);
    b->streams = allocate(2 * sizeof *b->streams * (size_t)s->pipeline);
    b->need = allocate(sizeof *b->need * (size_t)s->pipeline);
    for (int i = 0; i < s->pipeline; i++) (s->etcd ? batch_etcd_request : batch_request)(b, i & 1 ? odd : even, s);
}

static void batch_streams(struct batch *b, struct etcd_reader *r)
{
    for (int i = 0; i < 2 * b->n_ops; i++) etcd_set_stream(b->bytes + b->streams[i], r->next_stream + 2 * (uint32_t)(i / 2));
    etcd_begin(r, (uint32_t)b->n_ops, b->need);
}

static void conn_batches(struct conn *c, const struct settings *s, int number)
{
    enum workload w = s->workload == FILL ? SET : s->workload;
    c->n_batches = 1;
    if (w != MIX) {
        batch_init(&c->batch[0], s, w, w);
    } else if (s->pipeline > 1) {
        batch_init(&c->batch[0], s, SET, GET);
    } else {
        batch_init(&c->batch[0], s, SET, SET);
        batch_init(&c->batch[1], s, GET, GET);
        c->n_batches = 2;
        c->turn = number & 1;
    }
}

static void write_digits(char *p, uint64_t v)
{
    for (int i = KEY_DIGITS - 1; i >= 0; i--, v /= 10) p[i] = (char)('0' + v % 10);
}

static uint64_t random_key(struct thread *t, const struct settings *s)
{
    uint64_t x = t->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    t->random = x;
    uint64_t i = (uint64_t)(((unsigned __int128)x * s->keys) >> 64);
    return s->chosen ? s->chosen[i] : s->first_key + i;
}

/* The value of the key whose digits are at p; both are part of a prebuilt SET. */
static void write_own_value(char *p, long bytes, uint64_t key)
{
    char *dollar = p + KEY_DIGITS + strlen("\r\n");
    write_letters(strchr(dollar, '\n') + 1, bytes, (key + 1) * 0x9e3779b97f4a7c15u);
}

/* The next stretch of keys for a fill. The last batch is pulled back to end with the last key. False: all keys are taken. */
static bool fill_keys(struct shared *sh, struct batch *b)
{
    const struct settings *s = &sh->set;
    uint64_t n = (uint64_t)b->n_keys, at = atomic_fetch_add_explicit(&sh->next_key, n, memory_order_relaxed);
    if (at >= s->keys) return false;
    if (at + n > s->keys) at = s->keys > n ? s->keys - n : 0;
    for (uint64_t i = 0; i < n; i++) {
        write_digits(b->bytes + b->digits[i], s->first_key + at + i);
        if (s->distinct) write_own_value(b->bytes + b->digits[i], s->value_bytes, s->first_key + at + i);
    }
    return true;
}

/* ---- connections */

static void push(struct conn *c)
{
    const struct batch *b = &c->batch[c->turn];
    ssize_t n = send(c->fd, b->bytes + c->sent, b->len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) c->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN) die("send", strerror(errno));
}

/* Numbers the streams of the next batch. What the server is still to be told goes ahead of it, in the same packet: it costs neither side a wake-up. */
static void etcd_fire(struct conn *c, struct batch *b)
{
    struct etcd_reader *r = &c->etcd;
    batch_streams(b, r);
    if (r->n_back > 0 && send(c->fd, r->back, r->n_back, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) != (ssize_t)r->n_back) die("send", "a few bytes that cannot be sent");
    r->n_back = 0;
}

/* Starts the next batch of a connection, unless the run is over. */
static void fire(struct thread *t, struct conn *c, uint64_t due_ns)
{
    struct shared *sh = t->shared;
    struct batch *b = &c->batch[c->turn];
    bool more = atomic_load_explicit(&sh->phase, memory_order_relaxed) != STOP;
    if (more && sh->set.workload == FILL) more = fill_keys(sh, b);
    else if (more)
        for (int i = 0; i < b->n_keys; i++) write_digits(b->bytes + b->digits[i], random_key(t, &sh->set));
    c->busy = more;
    if (!more) return;
    t->live++;
    c->sent = c->received = 0;
    if (sh->set.etcd) etcd_fire(c, b);
    c->started_ns = due_ns;
    push(c);
}

static void fire_due(struct thread *t, uint64_t now)
{
    int n_conns = t->shared->set.conns;
    for (; t->n_idle > 0 && t->due_ns <= now; t->due_ns += t->interval_ns) {
        struct conn *c = t->idle[t->idle_first];
        t->idle_first = (t->idle_first + 1) % n_conns;
        t->n_idle--;
        fire(t, c, t->due_ns);
    }
}

/* What a connection does when it has nothing to wait for. */
static void conn_next(struct thread *t, struct conn *c, uint64_t now)
{
    if (!t->interval_ns) {
        fire(t, c, now);
        return;
    }
    c->busy = false;
    t->idle[(t->idle_first + t->n_idle++) % t->shared->set.conns] = c;
}

static void note(struct thread *t, struct conn *c, uint64_t now)
{
    if (atomic_load_explicit(&t->shared->phase, memory_order_relaxed) != MEASURE) return;
    uint64_t took = now - c->started_ns;
    t->ops += (uint64_t)c->batch[c->turn].n_ops;
    t->batches++;
    t->hist[c->turn][hist_index(took)]++;
    if (took > t->max_ns) {
        t->max_ns = took;
        t->max_at_op = t->ops;
    }
}

static void refuse_error(const char *p, size_t n)
{
    const char *end = memchr(p, '\r', n);
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)(end ? end - p : (ssize_t)n), p);
    die("error reply", text);
}

/* Bytes of replies; true when the batch is answered. */
static bool take_resp(struct conn *c, const char *p, size_t n)
{
    const struct batch *b = &c->batch[c->turn];
    if (c->received == 0 && p[0] == '-') refuse_error(p, n);
    c->received += n;
    if (c->received > b->reply_bytes) die("reply", "longer than expected");
    if (c->received < b->reply_bytes) return false;
    if (p[n - 1] != '\n') die("reply", "of a wrong length");
    return true;
}

static bool take_etcd(struct conn *c, const char *p, size_t n)
{
    const char *wrong = etcd_read(&c->etcd, p, n);
    if (wrong) die("reply", wrong);
    return c->etcd.ended == c->etcd.n;
}

/* Takes what has arrived; true when the batch is answered. Edge-triggered, so it reads until the socket is empty or the batch complete. */
static bool pull(struct conn *c, char *inbox, bool etcd)
{
    for (;;) {
        ssize_t n = recv(c->fd, inbox, RECV_BYTES, MSG_DONTWAIT);
        if (n == 0) die("connection", "closed by the server");
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) die("recv", strerror(errno));
        if ((etcd ? take_etcd : take_resp)(c, inbox, (size_t)n)) return true;
    }
}

static void etcd_open(struct conn *c, int pipeline)
{
    c->etcd.next_stream = 1;
    c->etcd.got = allocate(sizeof *c->etcd.got * (size_t)pipeline);
    c->etcd.n_back = etcd_hello(c->etcd.back);
}

static void conn_open(struct thread *t, struct conn *c, int ep, int number)
{
    const struct settings *s = &t->shared->set;
    uint16_t port = s->ports[(t->number * s->conns + number) % s->n_ports];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a)) die("connect", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    conn_batches(c, s, number);
    if (s->etcd) etcd_open(c, s->pipeline);
    if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev)) die("epoll", strerror(errno));
}

static void conn_ready(struct thread *t, struct conn *c)
{
    if (!c->busy) return;
    if (c->sent < c->batch[c->turn].len) push(c);
    if (!pull(c, t->inbox, t->shared->set.etcd)) return;
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    note(t, c, now);
    t->live--;
    c->turn = (c->turn + 1) % c->n_batches;
    conn_next(t, c, now);
}

/* Waits for replies, but not past the moment when the next batch is due. */
static int wait_events(struct thread *t, int ep, struct epoll_event *events, int max)
{
    struct timespec timeout = {.tv_sec = STALL_SECONDS};
    bool timed = t->interval_ns && t->n_idle > 0;
    if (timed) {
        uint64_t now = now_ns(CLOCK_MONOTONIC), left = t->due_ns > now ? t->due_ns - now : 0;
        timeout = (struct timespec){.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
    }
    int n = epoll_pwait2(ep, events, max, &timeout, NULL);
    if (n == 0 && !timed) die("stall", "no reply; does every key exist, with values of this length?");
    return n;
}

static bool thread_goes_on(const struct thread *t)
{
    return t->live > 0 || (t->interval_ns && atomic_load_explicit(&t->shared->phase, memory_order_relaxed) != STOP);
}

static void *thread_run(void *arg)
{
    struct thread *t = arg;
    struct epoll_event events[128];
    const struct settings *s = &t->shared->set;
    int n_conns = s->conns, ep = epoll_create1(EPOLL_CLOEXEC);
    t->conns = allocate(sizeof *t->conns * (size_t)n_conns);
    t->inbox = allocate(RECV_BYTES);
    t->idle = allocate(sizeof(struct conn *) * (size_t)n_conns);
    if (s->rate > 0) t->interval_ns = (uint64_t)(1e9 * s->pipeline * s->threads / s->rate);
    prctl(PR_SET_TIMERSLACK, 1000);
    for (int i = 0; i < n_conns; i++) conn_open(t, &t->conns[i], ep, i);
    t->due_ns = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < n_conns; i++) conn_next(t, &t->conns[i], t->due_ns);
    while (thread_goes_on(t)) {
        int n = wait_events(t, ep, events, 128);
        for (int i = 0; i < n; i++) conn_ready(t, events[i].data.ptr);
        if (t->interval_ns) fire_due(t, now_ns(CLOCK_MONOTONIC));
    }
    for (int i = 0; i < n_conns; i++) close(t->conns[i].fd);
    return NULL;
}

/* ---- CPU: the server's, our own, and everybody else's. A run that others disturbed is to be thrown away. */

struct cpu {
    uint64_t wall_ns, own_ns, server_ns, helpers_ns, machine_ns;
};

static uint64_t process_ns(pid_t pid)
{
    clockid_t clock;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock)) return 0;
    return now_ns(clock);
}

/* Time that any core spent working, or that the hypervisor took away. */
static uint64_t machine_ns(void)
{
    unsigned long long user, nice, sys, idle, wait, irq, soft, steal;
    FILE *f = fopen("/proc/stat", "r");
    int n = f ? fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &sys, &idle, &wait, &irq, &soft, &steal) : 0;
    if (f) fclose(f);
    if (n != 8) return 0;
    return (user + nice + sys + irq + soft + steal) * 1000000000u / (unsigned long long)sysconf(_SC_CLK_TCK);
}

static struct cpu cpu_read(const struct settings *s)
{
    struct cpu c = {
        .wall_ns = now_ns(CLOCK_MONOTONIC),
        .own_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID),
        .machine_ns = machine_ns(),
    };
    for (int i = 0; i < s->n_servers; i++) c.server_ns += process_ns(s->servers[i]);
    for (int i = 0; i < s->n_helpers; i++) c.helpers_ns += process_ns(s->helpers[i]);
    return c;
}

/* ---- program */

static const char usage[] =
    "load: a light client for servers on 127.0.0.1; prints one line of JSON\n"
    "  --port P             where the server listens; repeated, connections are spread over them\n"
    "  --etcd               the server is etcd; a pipeline is so many calls at once on a connection\n"
    "  --workload W         get, set, mix (1:1), mget, mset, or fill (each key once)   (get)\n"
    "  --threads N          (2)            --conns N         connections of each thread (25)\n"
    "  --pipeline N         (1)            --multi N         keys of an mget or mset (10)\n"
    "  --keys N             (1000000)      --first-key N     smallest key number (0)\n"
    "  --prefix TEXT        of every key, before ten digits (key:)\n"
    "  --chosen FILE        use the key numbers in FILE, one per line, instead\n"
    "  --value-bytes N      (256)          --seconds S       measured time (2)\n"
    "  --warmup S           before it (0.2)\n"
    "  --distinct           a fill gives every key a value of its own: one that no compression makes small\n"
    "  --rate N             operations per second in all, latency counted from when each was due (0: as many as possible)\n"
    "  --max-seconds S      give up after this long, a fill too (600)\n"
    "  --server PID         measure this process's CPU; may be repeated\n"
    "  --helper PID         do not count this process's CPU as foreign; may be repeated\n";

static double number(const char *text, double min, double max, const char *name)
{
    char *end;
    double v = strtod(text, &end);
    if (*text && !*end && v >= min && v <= max) return v;
    fprintf(stderr, "load: --%s needs a number from %g to %g\n", name, min, max);
    exit(2);
}

static enum workload workload_of(const char *name)
{
    for (enum workload w = GET; w <= FILL; w++)
        if (!strcmp(workload_names[w], name)) return w;
    die(name, "no such workload");
}

static void read_chosen(struct settings *s, const char *path)
{
    FILE *f = fopen(path, "r");
    unsigned long long key;
    size_t cap = 0;
    if (!f) die(path, strerror(errno));
    for (s->keys = 0; fscanf(f, "%llu", &key) == 1; s->chosen[s->keys++] = key) {
        if (s->keys < cap) continue;
        cap = cap ? cap * 2 : 1024;
        s->chosen = realloc(s->chosen, cap * sizeof *s->chosen);
        if (!s->chosen) die("memory", "none left");
    }
    fclose(f);
    if (s->keys == 0) die(path, "holds no key numbers");
}

enum option_name { O_PORT, O_WORKLOAD, O_THREADS, O_CONNS, O_PIPELINE, O_MULTI, O_KEYS, O_FIRST, O_PREFIX, O_CHOSEN, O_VALUE, O_SECONDS, O_WARMUP, O_RATE,
                   O_MAX, O_SERVER, O_HELPER, O_DISTINCT, O_ETCD, O_HELP };

static void add_pid(pid_t *pids, int *n, const char *arg, const char *name)
{
    if (*n == PIDS_MAX) die(name, "too many");
    pids[(*n)++] = (pid_t)number(arg, 1, 1 << 30, name);
}

static void set_option(struct settings *s, int o, const char *arg)
{
    switch (o) {
    case O_PORT:
        if (s->n_ports == PIDS_MAX) die("port", "too many");
        s->ports[s->n_ports++] = (uint16_t)number(arg, 1, 65535, "port");
        break;
    case O_ETCD: s->etcd = true; break;
    case O_WORKLOAD: s->workload = workload_of(arg); break;
    case O_THREADS: s->threads = (int)number(arg, 1, THREADS_MAX, "threads"); break;
    case O_CONNS: s->conns = (int)number(arg, 1, 10000, "conns"); break;
    case O_PIPELINE: s->pipeline = (int)number(arg, 1, 10000, "pipeline"); break;
    case O_MULTI: s->multi = (int)number(arg, 1, 1000, "multi"); break;
    case O_KEYS: s->keys = (uint64_t)number(arg, 1, 9e9, "keys"); break;
    case O_FIRST: s->first_key = (uint64_t)number(arg, 0, 9e8, "first-key"); break;
    case O_PREFIX: s->prefix = arg; break;
    case O_CHOSEN: read_chosen(s, arg); break;
    case O_VALUE: s->value_bytes = (long)number(arg, 0, 1 << 20, "value-bytes"); break;
    case O_SECONDS: s->seconds = number(arg, 0.01, 3600, "seconds"); break;
    case O_WARMUP: s->warmup_seconds = number(arg, 0, 60, "warmup"); break;
    case O_DISTINCT: s->distinct = true; break;
    case O_RATE: s->rate = number(arg, 0, 1e8, "rate"); break;
    case O_MAX: s->max_seconds = number(arg, 1, 7200, "max-seconds"); break;
    case O_SERVER: add_pid(s->servers, &s->n_servers, arg, "server"); break;
    case O_HELPER: add_pid(s->helpers, &s->n_helpers, arg, "helper"); break;
    default: fputs(usage, o == O_HELP ? stdout : stderr); exit(o == O_HELP ? 0 : 2);
    }
}

static void check_etcd(const struct settings *s)
{
    long message = s->value_bytes + (long)strlen(s->prefix) + KEY_DIGITS + ETCD_OVERHEAD;
    if (s->workload == MGET || s->workload == MSET || s->distinct) die("--etcd", "has neither mget nor mset nor distinct values");
    if (s->value_bytes > ETCD_VALUE_MAX || strlen(s->prefix) > ETCD_OVERHEAD) die("--etcd", "keys and values must be small");
    if (message * s->pipeline > ETCD_FLIGHT_MAX) die("--etcd", "too many bytes at once; use a shorter pipeline");
}

static void read_options(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {
        {"port", 1, 0, O_PORT}, {"workload", 1, 0, O_WORKLOAD}, {"threads", 1, 0, O_THREADS}, {"conns", 1, 0, O_CONNS},
        {"pipeline", 1, 0, O_PIPELINE}, {"multi", 1, 0, O_MULTI}, {"keys", 1, 0, O_KEYS}, {"first-key", 1, 0, O_FIRST}, {"prefix", 1, 0, O_PREFIX},
        {"chosen", 1, 0, O_CHOSEN}, {"value-bytes", 1, 0, O_VALUE}, {"seconds", 1, 0, O_SECONDS}, {"warmup", 1, 0, O_WARMUP}, {"rate", 1, 0, O_RATE},
        {"max-seconds", 1, 0, O_MAX}, {"server", 1, 0, O_SERVER}, {"helper", 1, 0, O_HELPER}, {"distinct", 0, 0, O_DISTINCT},
        {"etcd", 0, 0, O_ETCD}, {"help", 0, 0, O_HELP}, {0},
    };
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) set_option(s, o, optarg);
    if (s->rate > 0 && s->workload == FILL) die("--rate", "a fill goes as fast as it can");
    if (s->etcd) check_etcd(s);
    if (s->n_ports && optind == argc) return;
    fputs(usage, stderr);
    exit(2);
}

static void print_result(const struct settings *s, const struct thread *threads, struct cpu a, struct cpu b)
{
    static uint64_t hist[HIST_BUCKETS], kinds[2][HIST_BUCKETS];
    uint64_t ops = 0, batches = 0, max_ns = 0, max_at = 0, n_kind[2] = {0};
    for (int i = 0; i < s->threads; i++) {
        const struct thread *t = &threads[i];
        ops += t->ops;
        batches += t->batches;
        if (t->max_ns > max_ns) max_ns = t->max_ns, max_at = t->max_at_op;
        for (unsigned j = 0; j < 2 * HIST_BUCKETS; j++) {
            uint32_t n = t->hist[j / HIST_BUCKETS][j % HIST_BUCKETS];
            hist[j % HIST_BUCKETS] += n;
            kinds[j / HIST_BUCKETS][j % HIST_BUCKETS] += n;
            n_kind[j / HIST_BUCKETS] += n;
        }
    }
    if (ops == 0) die("run", "nothing was answered in the measured time");
    double seconds = (double)(b.wall_ns - a.wall_ns) / 1e9;
    double own = (double)(b.own_ns - a.own_ns), server = (double)(b.server_ns - a.server_ns);
    double foreign = (double)(b.machine_ns - a.machine_ns) - own - server - (double)(b.helpers_ns - a.helpers_ns);
    printf("{\"workload\": \"%s\", \"pipeline\": %d, \"conns\": %d, \"ops\": %llu, \"seconds\": %.3f, \"ops_per_s\": %.0f, ",
           workload_names[s->workload], s->pipeline, s->threads * s->conns, (unsigned long long)ops, seconds, (double)ops / seconds);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, \"max_at_op\": %llu, ", quantile_us(hist, batches, 0.5),
           quantile_us(hist, batches, 0.99), quantile_us(hist, batches, 0.999), (double)max_ns / 1e3, (unsigned long long)max_at);
    if (n_kind[1] > 0)
        for (int k = 0; k < 2; k++)
            printf("\"%s_p50_us\": %.1f, \"%s_p99_us\": %.1f, ", k ? "get" : "set", quantile_us(kinds[k], n_kind[k], 0.5), k ? "get" : "set",
                   quantile_us(kinds[k], n_kind[k], 0.99));
    printf("\"server_us_per_op\": %.4f, \"client_us_per_op\": %.4f, \"foreign_cores\": %.3f}\n", server / 1e3 / (double)ops,
           own / 1e3 / (double)ops, foreign > 0 ? foreign / 1e9 / seconds : 0.0);
}

static void sleep_seconds(double s)
{
    struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR) continue;
}

int main(int argc, char **argv)
{
    static struct shared sh = {.set = {.threads = 2, .conns = 25, .pipeline = 1, .multi = 10, .value_bytes = 256, .seconds = 2,
                                       .warmup_seconds = 0.2, .max_seconds = 600, .keys = 1000000, .prefix = "key:"}};
    struct settings *s = &sh.set;
    read_options(argc, argv, s);
    struct thread *threads = allocate(sizeof *threads * (size_t)s->threads);
    bool fill = s->workload == FILL;
    alarm((unsigned)s->max_seconds); /* whatever hangs, the program ends */
    sh.phase = fill ? MEASURE : WARMUP;
    struct cpu before = cpu_read(s), after;
    for (int i = 0; i < s->threads; i++) {
        threads[i].shared = &sh;
        threads[i].number = i;
        threads[i].random = 0x2545f4914f6cdd1du * (uint64_t)(i + 1) ^ before.wall_ns;
        if (pthread_create(&threads[i].id, NULL, thread_run, &threads[i])) die("thread", "cannot start");
    }
    if (!fill) {
        sleep_seconds(s->warmup_seconds);
        before = cpu_read(s);
        sh.phase = MEASURE;
        sleep_seconds(s->seconds);
        sh.phase = STOP;
        after = cpu_read(s);
    }
    for (int i = 0; i < s->threads; i++) pthread_join(threads[i].id, NULL);
    if (fill) after = cpu_read(s);
    print_result(s, threads, before, after);
}
