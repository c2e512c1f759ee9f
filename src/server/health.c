#include "server/health.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    LOG_FAIL_FACTOR = 4,     /* times the limit: dumps do not come, or do not keep up */
    DUMP_LATE_FACTOR = 2,    /* times snapshot_interval */
    DISK_LOW_BYTES = 64 << 20,
};

static void say(struct health_finding *h, enum health_state state, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(struct health_finding *h, enum health_state state, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    h->state = state;
    vsnprintf(h->text, sizeof h->text, fmt, ap);
    va_end(ap);
}

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

/* The limit is where a dump begins; what is appended while it runs is on top, hence a running one excuses a longer log. */
static void judge_wal(const struct health_facts *f, struct health_finding *h)
{
    if (f->log_broken)
        say(h, HEALTH_FAIL, "a sync of the log has failed: writes are refused until the server is started again");
    else if (f->log_error)
        say(h, HEALTH_FAIL, "the log cannot be written (%s): writes are refused until it can", strerror(f->log_error));
    else if (f->log_bytes > f->log_limit && f->log_bytes / LOG_FAIL_FACTOR > f->log_limit)
        say(h, HEALTH_FAIL, "shard %" PRIu32 " has %.1f MiB of log since the last dump, over %d times its limit of %.1f MiB", f->shard, mib(f->log_bytes), LOG_FAIL_FACTOR,
            mib(f->log_limit));
    else if (f->log_bytes > f->log_limit && !f->dumping)
        say(h, HEALTH_WARN, "shard %" PRIu32 " has %.1f MiB of log since the last dump, its limit is %.1f MiB, and no dump is being made", f->shard, mib(f->log_bytes),
            mib(f->log_limit));
    else
        say(h, HEALTH_OK, "the longest log since the last dump has %.1f MiB of %.1f MiB%s", mib(f->log_bytes), mib(f->log_limit), f->dumping ? ", and a dump is being made" : "");
}

static void judge_dump(const struct health_facts *f, struct health_finding *h)
{
    int64_t age_s = (f->now_ms - (f->dumped ? f->dumped_ms : f->started_ms)) / 1000;
    bool late = f->interval_s && f->changes && age_s > DUMP_LATE_FACTOR * f->interval_s;
    if (f->dump_error)
        say(h, HEALTH_FAIL, "the last dump failed: %s", strerror(f->dump_error));
    else if (late && !f->dumping)
        say(h, HEALTH_WARN, "%s %" PRId64 " s ago, snapshot_interval is %" PRId64 " s, and %" PRIu64 " changes have been made", f->dumped ? "the last dump was made" : "the server was started", age_s,
            f->interval_s, f->changes);
    else if (!f->dumped)
        say(h, HEALTH_OK, "no dump yet: the log has everything");
    else
        say(h, HEALTH_OK, "the last dump was made %" PRId64 " s ago, with %" PRIu64 " changes since", age_s, f->changes);
}

static void judge_crc(const struct health_facts *f, struct health_finding *h)
{
    if (f->replay_errors)
        say(h, HEALTH_FAIL, "%" PRIu64 " damaged records were met at the start: the server's log names them, and their files are kept as .corrupt", f->replay_errors);
    else
        say(h, HEALTH_OK, "every record that was read at the start had the right checksum");
}

/* A dump is written beside the last one, and the log grows meanwhile. */
static void judge_disk(const struct health_facts *f, struct health_finding *h)
{
    uint64_t next = f->dump_bytes ? f->dump_bytes : f->data_bytes;
    uint64_t need = next + next / 2 + DISK_LOW_BYTES;
    if (f->disk_total == 0)
        say(h, HEALTH_WARN, "the file system of the data directory does not tell how much space it has");
    else if (f->disk_free < DISK_LOW_BYTES)
        say(h, HEALTH_FAIL, "%.1f MiB are free: the disk is nearly full", mib(f->disk_free));
    else if (f->disk_free < need)
        say(h, HEALTH_WARN, "%.1f MiB are free, but the next dump may need %.1f MiB with the log beside it", mib(f->disk_free), mib(need));
    else
        say(h, HEALTH_OK, "%.1f MiB are free, the next dump may need %.1f MiB with the log beside it", mib(f->disk_free), mib(need));
}

void health_judge(const struct health_facts *f, struct health_finding found[HEALTH_CHECKS])
{
    static void (*const judges[HEALTH_CHECKS])(const struct health_facts *, struct health_finding *) = {
        [HEALTH_WAL] = judge_wal, [HEALTH_DUMP] = judge_dump, [HEALTH_CRC] = judge_crc, [HEALTH_DISK] = judge_disk};
    for (int i = 0; i < HEALTH_CHECKS; i++) {
        if (f->durable && f->loading) say(&found[i], HEALTH_WARN, "the data is still being loaded");
        else if (f->durable) judges[i](f, &found[i]);
        else say(&found[i], HEALTH_OK, "the server is ephemeral: it keeps nothing on disk");
    }
}

/* ---- of a node */

static void judge_groups(const struct health_node_facts *f, struct health_finding *h)
{
    uint32_t left = f->groups - f->groups_led;
    if (!f->groups) say(h, HEALTH_FAIL, "this node does not know the cluster's groups yet");
    else if (left) say(h, HEALTH_FAIL, "%" PRIu32 " of %" PRIu32 " groups have no leader that is known here: their keys cannot be used", left, f->groups);
    else say(h, HEALTH_OK, "all %" PRIu32 " groups have a leader", f->groups);
}

static void judge_peers(const struct health_node_facts *f, struct health_finding *h)
{
    uint32_t unreached = f->nodes_alive - f->nodes_reached;
    if (!f->nodes) say(h, HEALTH_WARN, "this node has heard nothing of the cluster yet: the others must reach it where cluster-advertise or bind says");
    else if (f->nodes_alive < f->nodes) say(h, HEALTH_WARN, "%" PRIu32 " of %" PRIu32 " nodes are silent", f->nodes - f->nodes_alive, f->nodes);
    else if (unreached) say(h, HEALTH_WARN, "%" PRIu32 " of %" PRIu32 " nodes are heard of, but cannot be reached at the address that they tell", unreached, f->nodes);
    else say(h, HEALTH_OK, "all %" PRIu32 " nodes of the cluster are heard of", f->nodes);
}

static void judge_replicas(const struct health_node_facts *f, struct health_finding *h)
{
    uint32_t late = f->recovering + f->filling;
    if (late) say(h, HEALTH_WARN, "%" PRIu32 " replicas of this node are being made, from snapshots or from the log", late);
    else say(h, HEALTH_OK, "all replicas of this node follow their groups");
}

static void judge_node_disk(const struct health_node_facts *f, struct health_finding *h)
{
    if (f->log_error) say(h, HEALTH_FAIL, "the log gets no more room (%s): this node leads nothing until it does", strerror(f->log_error));
    else if (f->disk_total && f->disk_free < DISK_LOW_BYTES) say(h, HEALTH_WARN, "%.1f MiB of disk are free: soon the log gets no more room", mib(f->disk_free));
    else if (f->disk_total) say(h, HEALTH_OK, "%.1f of %.1f MiB of disk are free", mib(f->disk_free), mib(f->disk_total));
    else say(h, HEALTH_OK, "the file system does not tell how much room it has");
}

void health_judge_node(const struct health_node_facts *f, struct health_finding found[HEALTH_NODE_CHECKS])
{
    if (f->up) say(&found[HEALTH_NODE], HEALTH_OK, "this node is up, and knows the cluster's map");
    else say(&found[HEALTH_NODE], HEALTH_WARN, "this node is starting: its replicas are not back, or it has no map yet");
    judge_groups(f, &found[HEALTH_GROUPS]);
    judge_peers(f, &found[HEALTH_PEERS]);
    judge_replicas(f, &found[HEALTH_REPLICAS]);
    judge_node_disk(f, &found[HEALTH_NODE_DISK]);
}

const char *health_node_check_name(enum health_node_check c)
{
    static const char *const names[] = {[HEALTH_NODE] = "node", [HEALTH_GROUPS] = "groups", [HEALTH_PEERS] = "peers", [HEALTH_REPLICAS] = "replicas", [HEALTH_NODE_DISK] = "disk"};
    return names[c];
}

/* ---- */

enum health_state health_worst(const struct health_finding *found, int n)
{
    enum health_state worst = HEALTH_OK;
    for (int i = 0; i < n; i++)
        if (found[i].state > worst) worst = found[i].state;
    return worst;
}

const char *health_state_name(enum health_state s)
{
    static const char *const names[] = {[HEALTH_OK] = "ok", [HEALTH_WARN] = "warn", [HEALTH_FAIL] = "fail"};
    return names[s];
}

const char *health_check_name(enum health_check c)
{
    static const char *const names[] = {[HEALTH_WAL] = "wal", [HEALTH_DUMP] = "dump", [HEALTH_CRC] = "crc", [HEALTH_DISK] = "disk"};
    return names[c];
}
