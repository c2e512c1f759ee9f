#include "server/clusternode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/metaview.h"
#include "cluster/node.h"
#include "io/file_direct.h"
#include "server/clusterask.h"
#include "server/clusterconf.h"
#include "server/clusterpub.h"
#include "server/clustersecret.h"
#include "server/clusterslots.h"
#include "server/datadir.h"
#include "server/front.h"
#include "server/health.h"
#include "server/movers.h"
#include "server/relay.h"
#include "server/sampler.h"
#include "server/server.h"
#include "server/wide.h"
#include "server/widerange.h"
#include "server/widetxn.h"

enum {
    STOP_GRACE_MS = 3000,   /* for leadership to go elsewhere */
    JOIN_MAX_MS = 60000,    /* a cluster that is just starting, or changing its leaders, answers later */
    JOIN_PAUSE_MS = 500,
    JOIN_TELL_MS = 10000,
    JOIN_ANSWER_S = 10,
};

struct clusternode {
    struct server *server;
    const struct datadir *dir;
    struct clusterconf_peers peers;
    struct clusterconf_addresses at;
    struct buf joined; /* what a node of the cluster answered, ended by a zero byte */
    struct file_direct disk;
    struct node_options options;
    struct node_identity who;
};

static bool tell(const struct clusternode *c, const char *what, struct buf *error)
{
    slog(&c->server->log, SLOG_WARNING, what, "error=%.*s", (int)error->len, error->p);
    buf_fini(error);
    return false;
}

/* ---- joining */

/* Errors that another moment, or another node, may not have. */
static bool is_passing(struct slice error)
{
    static const char *const codes[] = {"LOADING", "CLUSTERDOWN", "TRYAGAIN", "UNCERTAIN", "MASTERDOWN"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (error.n > strlen(codes[i]) && memcmp(error.p, codes[i], strlen(codes[i])) == 0) return true;
    }
    return false;
}

/* The password of this server's own clients is the cluster's. */
static enum clusterask_result ask_to_join(const struct clusternode *c, uint64_t instance, const char *address, struct buf *answer)
{
    const struct config *cfg = c->server->config;
    char number[24];
    char proof[CLUSTERSECRET_PROOF + 1];
    snprintf(number, sizeof number, "%" PRIu64, instance);
    const struct slice words[] = {SLICE("CLUSTER"), SLICE("JOIN"), slice_str(number), slice_str(c->at.advertise), slice_str(c->at.clients), slice_str(cfg->cluster.name), slice_str(cfg->cluster.zone), slice_of(proof, CLUSTERSECRET_PROOF)};
    enum { ALL = sizeof words / sizeof words[0], UNPROVEN = ALL - 1, FIRST = 2 };
    bool guarded = clustersecret_prove(&c->options.secret, words + FIRST, UNPROVEN - FIRST, proof);
    const struct clusterask to = {.address = address, .password = *cfg->requirepass ? cfg->requirepass : NULL, .timeout_s = JOIN_ANSWER_S};
    return clusterask(&to, words, guarded ? ALL : UNPROVEN, answer);
}

static bool cannot_join(const struct clusternode *c, const char *address, struct buf *error)
{
    slog(&c->server->log, SLOG_WARNING, "cannot join the cluster", "node=%s error=%.*s", address, (int)error->len, error->p);
    buf_fini(error);
    return false;
}

/* The next of the nodes that cluster-join names, the first behind the last. True: a round begins. */
static bool next_to_ask(const struct clusternode *c, struct slice *rest, char address[CLUSTERCONF_ADDRESS_MAX])
{
    struct slice word;
    bool begins = !config_word(rest, &word);
    if (begins) {
        *rest = slice_str(c->server->config->cluster.join);
        config_word(rest, &word);
    }
    snprintf(address, CLUSTERCONF_ADDRESS_MAX, "%.*s", (int)word.n, word.p);
    return begins;
}

/* Asks each of them in turn. A node that was let in and did not hear of it gets the same number again: its folder has an instance of its own. What is in the way is told of one round in JOIN_TELL_MS. */
static bool join(struct clusternode *c)
{
    int64_t now = clock_unix_ms(), until = now + JOIN_MAX_MS, tell_at = now;
    struct buf answer = {0};
    struct slice rest = {0};
    char address[CLUSTERCONF_ADDRESS_MAX];
    uint64_t instance;
    bool tells = false;
    if (node_instance(&c->options, &instance, &answer) < 0) return tell(c, "cannot join the cluster", &answer);
    for (;; now = clock_unix_ms()) {
        if (next_to_ask(c, &rest, address)) {
            tells = now >= tell_at;
            if (tells) tell_at = now + JOIN_TELL_MS;
        }
        answer.len = 0;
        enum clusterask_result r = ask_to_join(c, instance, address, &answer);
        if (r == CLUSTERASK_ANSWERED) break;
        bool goes_on = r == CLUSTERASK_BROKEN || is_passing(buf_slice(&answer));
        if (!goes_on || now > until) return cannot_join(c, address, &answer);
        if (tells) slog(&c->server->log, SLOG_NOTICE, "cannot join the cluster yet", "node=%s error=%.*s", address, (int)answer.len, answer.p);
        nanosleep(&(struct timespec){.tv_nsec = JOIN_PAUSE_MS * 1000000l}, NULL);
    }
    buf_add_byte(&answer, '\0');
    c->joined = answer;
    c->options.joined = c->joined.p;
    return true;
}

/* ---- who it is */

static bool is_in_a_cluster(struct clusternode *c)
{
    const struct config *cfg = c->server->config;
    struct buf error = {0};
    if (node_is_known(&c->options) || c->peers.n) return true;
    bool joins = *cfg->cluster.join != '\0';
    if (joins && !c->options.id) return join(c);
    buf_add_str(&error, joins ? "a node that joins gets its number from the cluster: node-id is for the first nodes, which cluster-peers names"
                              : "this node is in no cluster yet: cluster-peers names the first nodes of a new one, cluster-join those of one that runs");
    return tell(c, "cannot be a node of a cluster", &error);
}

static void set_options(struct clusternode *c)
{
    struct server *s = c->server;
    const struct config *cfg = s->config;
    file_direct_init(&c->disk);
    c->options = (struct node_options){
        .dir = c->dir->path,
        .listen = c->at.listen,
        .advertise = c->at.advertise,
        .clients = c->at.clients,
        .name = cfg->cluster.name,
        .zone = cfg->cluster.zone,
        .id = (uint64_t)CONFIG_NUM(cfg, cluster.node_id),
        .peers = c->peers.of,
        .n_peers = c->peers.n,
        .shards = (uint32_t)CONFIG_NUM(cfg, cluster.shards),
        .replication = (uint32_t)CONFIG_NUM(cfg, cluster.replication),
        .files = &file_disk,
        .writes = &c->disk.ops,
        .log = &s->log,
        .election_ms = (uint32_t)CONFIG_NUM(cfg, cluster.election_ms),
        .heartbeat_ms = (uint32_t)CONFIG_NUM(cfg, cluster.heartbeat_ms),
        .segment_bytes = (uint64_t)CONFIG_NUM(cfg, cluster.segment_bytes),
        .snapshot_bytes = (uint64_t)CONFIG_NUM(cfg, cluster.snapshot_bytes),
    };
    config_secret(s->config, &c->options.secret);
}

static bool read_config(struct clusternode *c)
{
    const struct config *cfg = c->server->config;
    struct buf error = {0};
    int64_t id = CONFIG_NUM(cfg, cluster.node_id);
    int rc = clusterconf_peers(&c->peers, cfg->cluster.peers, &error);
    if (rc == 0) rc = clusterconf_addresses(&c->at, cfg, c->peers.n ? &c->peers.of[id - 1] : NULL, &error);
    if (rc) return tell(c, "cannot be a node of a cluster", &error);
    set_options(c);
    return true;
}

static bool identify(struct clusternode *c)
{
    struct buf error = {0};
    if (node_identify(&c->options, &c->who, &error) < 0) return tell(c, "cannot be a node of a cluster", &error);
    if (c->options.id && c->options.id != c->who.id)
        slog(&c->server->log, SLOG_WARNING, "node-id is ignored: the data directory says who this node is", "node_id=%" PRIu64 " is=%" PRIu64, c->options.id, c->who.id);
    return true;
}

struct clusternode *clusternode_new(struct server *s, const struct datadir *d)
{
    struct clusternode *c = mem_zalloc(sizeof *c);
    c->server = s;
    c->dir = d;
    if (read_config(c) && is_in_a_cluster(c) && identify(c)) return c;
    clusternode_free(c);
    return NULL;
}

void clusternode_free(struct clusternode *c)
{
    clusterconf_fini(&c->peers);
    buf_fini(&c->joined);
    mem_free(c);
}

uint64_t clusternode_seed(const struct clusternode *c) { return c->who.seed; }

/* ---- life */

/* Nothing that this node promised can be relied on any more, so nothing may leave it: the process ends here and now. */
static void failed(void *ctx, const char *why)
{
    const struct server *s = ctx;
    slog(&s->log, SLOG_WARNING, "this node cannot go on, the process ends", "error=%s", why);
    _exit(1);
}

/* It is no part of the cluster any more, and has nothing that the others do not have. */
static void left(void *ctx)
{
    struct server *s = ctx;
    slog(&s->log, SLOG_NOTICE, "this node has left the cluster", "");
    server_stop(s);
}

static void told(void *ctx) { relay_told(((struct server *)ctx)->relay); }
static int request(void *ctx, uint64_t from, uint32_t group, struct slice message) { return relay_request(((struct server *)ctx)->relay, from, group, message); }
static int answer(void *ctx, uint64_t from, uint32_t group, struct slice message) { return relay_answer(((struct server *)ctx)->relay, from, group, message); }
static void up(void *ctx, uint64_t peer, const struct links_lanes *how) { relay_up(((struct server *)ctx)->relay, peer, how); }
static void lane(void *ctx, uint64_t peer, uint16_t number, int fd, struct slice greeting) { relay_lane(((struct server *)ctx)->relay, peer, number, fd, greeting); }
static void down(void *ctx, uint64_t peer) { relay_down(((struct server *)ctx)->relay, peer); }
static void published(void *ctx, uint64_t from, const struct wirepub *what) { clusterpub_came(((struct server *)ctx)->clusterpub, from, what); }

bool clusternode_open(struct clusternode *c)
{
    struct server *s = c->server;
    struct buf error = {0};
    const struct node_calls calls = {.ctx = s, .told = told, .request = request, .answer = answer, .down = down, .up = up, .lane = lane, .published = published, .left = left, .failed = failed};
    s->relay = relay_new(s);
    s->clusterpub = clusterpub_new(s);
    for (uint32_t i = 0; i < s->engine->n_workers; i++) {
        s->fronts[i]->txns = widetxn_front_new(s->fronts[i]);
        s->fronts[i]->ranges = widerange_front_new(s->fronts[i]);
        s->fronts[i]->wides = wide_front_new();
    }
    s->node = node_open(&c->options, &c->who, s->engine, s->walk, &calls, &error);
    if (!s->node) return tell(c, "cannot be a node of a cluster", &error);
    s->fronts[0]->movers = movers_new(s->fronts[0]);
    relay_set_node(s->relay, s->node);
    relay_set_timeout(s->relay, (uint32_t)CONFIG_NUM(s->config, cluster.timeout_ms));
    return true;
}

bool clusternode_start(struct clusternode *c)
{
    struct buf error = {0};
    char name[METAVIEW_NODE_NAME + 1];
    if (node_start(c->server->node, &error) < 0) return tell(c, "cannot be a node of a cluster", &error);
    clusternode_name(c->server, name);
    slog(&c->server->log, SLOG_NOTICE, c->who.fresh ? "a new node of a cluster" : "a node of a cluster", "node=%" PRIu64 " name=%s run=%" PRIu64 " listens_at=%s nodes_at=%s clients_at=%s", c->who.id, name,
         c->who.incarnation, c->at.listen, c->at.advertise, c->at.clients);
    return true;
}

void clusternode_apply_secret(struct server *s)
{
    struct linksecret secret;
    config_secret(s->config, &secret);
    node_secret(s->node, &secret);
}

void clusternode_stop(struct clusternode *c) { node_stop(c->server->node, STOP_GRACE_MS); }

void clusternode_close(struct clusternode *c)
{
    node_close(c->server->node);
    for (uint32_t i = 0; i < c->server->engine->n_workers; i++) {
        wide_front_free(c->server->fronts[i]->wides);
        widerange_front_free(c->server->fronts[i]->ranges);
        widetxn_front_free(c->server->fronts[i]->txns);
    }
    if (c->server->fronts[0]->movers) movers_free(c->server->fronts[0]->movers);
    relay_free(c->server->relay);
    clusterpub_free(c->server->clusterpub);
    c->server->node = NULL;
    c->server->relay = NULL;
    c->server->clusterpub = NULL;
}

/* ---- what is known */

void clusternode_name(const struct server *s, char out[METAVIEW_NODE_NAME + 1])
{
    struct node_info info;
    node_look(s->node, &info);
    metaview_name(out, info.who.cluster, info.who.id);
}

static void add(struct buf *out, const char *name, uint64_t n) { buf_printf(out, "%s:%" PRIu64 "\r\n", name, n); }

/* The fields of Redis. All slots are well as long as every group is led. */
static void add_usual(struct buf *out, const struct node_info *i, bool ok)
{
    buf_printf(out, "cluster_state:%s\r\n", ok ? "ok" : "fail");
    add(out, "cluster_slots_assigned", CLUSTERSLOTS);
    add(out, "cluster_slots_ok", ok ? CLUSTERSLOTS : 0);
    add(out, "cluster_slots_pfail", 0);
    add(out, "cluster_slots_fail", ok ? 0 : CLUSTERSLOTS);
    add(out, "cluster_known_nodes", i->nodes);
    add(out, "cluster_size", i->nodes);
    add(out, "cluster_current_epoch", i->map_version);
    add(out, "cluster_my_epoch", i->who.incarnation);
}

static void add_raft(struct buf *out, const struct raftthread_stats *r)
{
    add(out, "cluster_replicas_here", r->groups);
    add(out, "cluster_leaders_here", r->leaders);
    add(out, "cluster_elections", r->elections);
    add(out, "cluster_entries_committed", r->commits);
    add(out, "cluster_entry_bytes_committed", r->commit_bytes);
    add(out, "cluster_log_bytes", r->log.segment_bytes);
    add(out, "cluster_log_segments", r->log.segments);
    buf_printf(out, "cluster_log_written_by:%s\r\n", r->log_rings ? "io_uring" : "thread");
    add(out, "cluster_callers_refused", r->links.refused);
    add(out, "cluster_secrets_refused", r->links.unproven);
}

static void add_snapshots(struct buf *out, const struct snaphost_info *p)
{
    add(out, "cluster_snapshots_taken", p->taken);
    add(out, "cluster_snapshots_failed", p->failed);
    add(out, "cluster_snapshots_fetched", p->fetched);
    add(out, "cluster_snapshot_bytes_sent", p->sent_bytes);
    add(out, "cluster_replicas_recovering", p->recovering);
    add(out, "cluster_replicas_filling", p->filling);
}

static void add_relay(struct buf *out, const struct relay_info *r)
{
    add(out, "cluster_requests_here", r->here);
    add(out, "cluster_requests_forwarded", r->forwarded);
    add(out, "cluster_requests_guests", r->guests);
    add(out, "cluster_requests_bounced", r->bounced);
    add(out, "cluster_requests_retried", r->retried);
    add(out, "cluster_requests_stale", r->stale);
    add(out, "cluster_requests_repeated", r->repeated);
    add(out, "cluster_requests_uncertain", r->uncertain);
    add(out, "cluster_requests_timed_out", r->timed_out);
    add(out, "cluster_lanes", r->lanes);
    add(out, "cluster_reads_proven_by_lanes", r->proven);
}

static void add_messages(struct buf *out, const struct clusterpub_info *p)
{
    add(out, "cluster_stats_messages_publish_sent", p->sent);
    add(out, "cluster_stats_messages_publish_received", p->received);
    add(out, "cluster_stats_messages_publish_dropped", p->dropped);
}

static void add_transactions(struct buf *out, const struct widetxn_info *t)
{
    add(out, "cluster_transactions_committed", t->committed);
    add(out, "cluster_transactions_aborted", t->aborted);
    add(out, "cluster_transactions_uncertain", t->uncertain);
    add(out, "cluster_transactions_in_one_group", t->in_one_group);
    add(out, "cluster_transactions_under_way", t->under_way);
    add(out, "cluster_transactions_recovered", t->recovered);
    add(out, "cluster_transactions_forgotten", t->forgotten);
    add(out, "cluster_intents", t->intents);
}

static void add_moves(struct buf *out, const struct movers_info *m)
{
    add(out, "cluster_moves_under_way", m->under_way);
    add(out, "cluster_moves_done", m->operations);
    add(out, "cluster_moves_slices", m->slices);
    add(out, "cluster_moves_keys", m->keys);
    add(out, "cluster_moves_bytes", m->bytes);
    add(out, "cluster_moves_slices_put_off", m->busy);
    add(out, "cluster_moves_large_values", m->large);
    add(out, "cluster_moves_longest_slice_ms", m->longest_slice_ms);
}

/* Its groups are back, and it answers: the one comes a moment after the other. */
static bool is_up(const struct server *s) { return node_is_up(s->node) && !atomic_load(&s->loading); }

void clusternode_info(struct server *s, struct buf *out)
{
    struct node_info i;
    struct relay_info r;
    struct clusterpub_info p;
    struct widetxn_info t;
    struct movers_info m;
    node_look(s->node, &i);
    relay_look(s->relay, &r);
    clusterpub_look(s, &p);
    widetxn_look(s, &t);
    movers_look(s, &m);
    add_usual(out, &i, is_up(s) && i.groups && i.groups_led == i.groups);
    add(out, "cluster_node_id", i.who.id);
    add(out, "cluster_nodes_alive", i.nodes_alive);
    add(out, "cluster_groups", i.groups);
    add(out, "cluster_groups_led", i.groups_led);
    add(out, "cluster_map_version", i.map_version);
    add(out, "cluster_operations", i.operations);
    add_raft(out, &i.raft);
    add_snapshots(out, &i.snapshots);
    add_relay(out, &r);
    add(out, "cluster_waits_for_map", wide_waits(s));
    add_messages(out, &p);
    add_transactions(out, &t);
    add_moves(out, &m);
}

void clusternode_facts(struct server *s, struct health_node_facts *out)
{
    struct sampler_disk disk;
    struct node_info i;
    sampler_disk(s, &disk);
    node_look(s->node, &i);
    *out = (struct health_node_facts){.up = is_up(s),
                                      .nodes = i.nodes,
                                      .nodes_alive = i.nodes_alive,
                                      .nodes_reached = i.nodes_reached,
                                      .groups = i.groups,
                                      .groups_led = i.groups_led,
                                      .recovering = i.snapshots.recovering,
                                      .filling = i.snapshots.filling,
                                      .log_error = -i.raft.chore_error,
                                      .disk_free = disk.free_bytes,
                                      .disk_total = disk.total_bytes};
}
