#include "server/clusterconf.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "io/dial.h"
#include "server/config.h"

enum { PORT_DISTANCE = 10000 };

uint16_t clusterconf_port(int64_t cluster_port, int64_t port) { return (uint16_t)(cluster_port ? cluster_port : port + PORT_DISTANCE); }

/* ---- the first nodes */

/* host:port, with brackets where the host has colons itself. */
static bool is_address(const char *text)
{
    char host[DIAL_HOST_MAX];
    const char *port;
    int64_t n;
    if (strlen(text) >= CLUSTERCONF_ADDRESS_MAX || !dial_split(text, host, &port)) return false;
    if (text[0] != '[' && strchr(host, ':')) return false;
    return num_parse_i64(slice_str(port), &n) && n > 0 && n <= UINT16_MAX;
}

static int refuse_peer(struct buf *error, const char *word, const char *why)
{
    buf_printf(error, "cluster-peers: '%.200s': %s", word, why);
    return -1;
}

/* A node that has this address already, for nodes or for clients; 0: none. */
static uint64_t owner_of(const struct clusterconf_peers *p, const char *address)
{
    for (uint32_t i = 0; i < CLUSTERCONF_PEERS_MAX; i++)
        if (p->of[i].id && (strcmp(p->of[i].address, address) == 0 || strcmp(p->of[i].clients, address) == 0)) return p->of[i].id;
    return 0;
}

/* "1=host:port/host:port", which is cut. */
static int add_peer(struct clusterconf_peers *p, char *word, struct buf *error)
{
    static const char form[] = "a node is number=host:cluster-port/host:port";
    char whole[CLUSTERCONF_ADDRESS_MAX];
    snprintf(whole, sizeof whole, "%s", word);
    char *equals = strchr(word, '='), *slash = equals ? strchr(equals, '/') : NULL;
    int64_t id;
    if (!slash) return refuse_peer(error, whole, form);
    *equals = *slash = '\0';
    if (!num_parse_i64(slice_str(word), &id) || !is_address(equals + 1) || !is_address(slash + 1)) return refuse_peer(error, whole, form);
    if (id < 1 || id > CLUSTERCONF_PEERS_MAX) return refuse_peer(error, whole, "numbers begin at 1, and a new cluster has at most 16 nodes");
    if (p->of[id - 1].id) return refuse_peer(error, whole, "that number is there twice");
    if (owner_of(p, equals + 1) || owner_of(p, slash + 1)) return refuse_peer(error, whole, "another node has one of these addresses");
    if (strcmp(equals + 1, slash + 1) == 0) return refuse_peer(error, whole, "nodes and clients cannot come to the same port");
    p->of[id - 1] = (struct node_peer){.id = (uint64_t)id, .address = equals + 1, .clients = slash + 1};
    p->n++;
    return 0;
}

int clusterconf_peers(struct clusterconf_peers *p, const char *words, struct buf *error)
{
    *p = (struct clusterconf_peers){.text = mem_strdup(words)};
    char *rest = NULL;
    for (char *word = strtok_r(p->text, " ,\t\n", &rest); word; word = strtok_r(NULL, " ,\t\n", &rest)) {
        if (add_peer(p, word, error)) return -1;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->of[i].id) continue;
        buf_printf(error, "cluster-peers: there is no node %u: the numbers are 1, 2, and so on", i + 1);
        return -1;
    }
    return 0;
}

void clusterconf_fini(struct clusterconf_peers *p)
{
    mem_free(p->text);
    *p = (struct clusterconf_peers){0};
}

/* ---- addresses */

static bool is_wildcard(const char *host) { return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0; }

static void first_host(const struct config *cfg, char host[DIAL_HOST_MAX])
{
    struct slice rest = slice_str(cfg->bind), word;
    if (!config_word(&rest, &word)) word = SLICE("127.0.0.1");
    if (word.n && word.p[0] == '-') word = slice_of(word.p + 1, word.n - 1);
    if (slice_is(word, "*")) word = SLICE("0.0.0.0");
    snprintf(host, DIAL_HOST_MAX, "%.*s", (int)word.n, word.p);
}

static void join_address(char out[CLUSTERCONF_ADDRESS_MAX], const char *host, int64_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    snprintf(out, CLUSTERCONF_ADDRESS_MAX, v6 ? "[%s]:%d" : "%s:%d", host, (int)port);
}

static bool is_v6(const char *host)
{
    struct in6_addr a;
    return inet_pton(AF_INET6, host, &a) == 1;
}

/* "host:port", "[v6]:port" or a host alone, which may be an IPv6 address with or without brackets. False: it is none of these. */
static bool split_advertise(const char *text, char host[DIAL_HOST_MAX], int64_t *port)
{
    const char *rest;
    if (is_address(text) && dial_split(text, host, &rest)) return num_parse_i64(slice_str(rest), port);
    size_t n = strlen(text);
    bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
    snprintf(host, DIAL_HOST_MAX, "%.*s", (int)(brackets ? n - 2 : n), text + brackets);
    return n < DIAL_HOST_MAX && (brackets || strchr(host, ':') ? is_v6(host) : !strpbrk(host, " \t\n,/[]"));
}

int clusterconf_addresses(struct clusterconf_addresses *a, const struct config *cfg, const struct node_peer *me, struct buf *error)
{
    char host[DIAL_HOST_MAX];
    int64_t port = CONFIG_NUM(cfg, port), cluster_port = clusterconf_port(CONFIG_NUM(cfg, cluster.port), port);
    first_host(cfg, host);
    join_address(a->listen, host, cluster_port);
    if (!*cfg->cluster.advertise && me) {
        snprintf(a->advertise, sizeof a->advertise, "%s", me->address);
        snprintf(a->clients, sizeof a->clients, "%s", me->clients);
        return 0;
    }
    if (*cfg->cluster.advertise && !split_advertise(cfg->cluster.advertise, host, &cluster_port)) {
        buf_printf(error, "cluster-advertise: '%.200s' is neither a host nor host:cluster-port", cfg->cluster.advertise);
        return -1;
    }
    if (is_wildcard(host)) {
        buf_printf(error, "other nodes cannot reach this one at %s: cluster-advertise says by which name or address they can", host);
        return -1;
    }
    join_address(a->advertise, host, cluster_port);
    join_address(a->clients, host, port);
    return 0;
}

/* ---- what does not go together */

static int refuse(struct buf *why, const char *text)
{
    buf_add_str(why, text);
    return -1;
}

static int check_others(const struct config *cfg, struct buf *why)
{
    if (CONFIG_NUM(cfg, ephemeral)) return refuse(why, "a node of a cluster needs a data directory: not both cluster and ephemeral");
    if (*cfg->snapshot) return refuse(why, "a server of a snapshot is no node of a cluster: not both cluster and snapshot");
    int64_t port = CONFIG_NUM(cfg, port), cluster_port = CONFIG_NUM(cfg, cluster.port);
    if (port == 0) return refuse(why, "a node of a cluster needs a TCP port for clients, and port is 0");
    if (cluster_port == 0 && port + PORT_DISTANCE > UINT16_MAX) return refuse(why, "port is too high for a cluster port 10000 above it: set cluster-port");
    if (cluster_port == port) return refuse(why, "port and cluster-port are the same");
    if (CONFIG_NUM(cfg, cluster.shards) >= CONFIG_NUM(cfg, cluster.seats)) return refuse(why, "cluster-seats must be more than cluster-shards: a node may have a replica of each");
    return 0;
}

static int check_join(const struct config *cfg, struct buf *why)
{
    struct slice rest = slice_str(cfg->cluster.join), word;
    char address[CLUSTERCONF_ADDRESS_MAX];
    while (config_word(&rest, &word)) {
        snprintf(address, sizeof address, "%.*s", (int)word.n, word.p);
        if (word.n < sizeof address && is_address(address)) continue;
        buf_printf(why, "cluster-join: '%.200s' is not of the form host:port", address);
        return -1;
    }
    return 0;
}

static int check_peers(const struct config *cfg, struct buf *why)
{
    struct clusterconf_peers p;
    struct clusterconf_addresses a;
    int64_t id = CONFIG_NUM(cfg, cluster.node_id);
    int rc = clusterconf_peers(&p, cfg->cluster.peers, why);
    if (rc == 0 && p.n && (id < 1 || id > p.n)) {
        buf_printf(why, "node-id says which of the %u nodes of cluster-peers this one is, from 1 on; it is %lld", p.n, (long long)id);
        rc = -1;
    }
    if (rc == 0) rc = clusterconf_addresses(&a, cfg, p.n ? &p.of[id - 1] : NULL, why);
    clusterconf_fini(&p);
    return rc;
}

int clusterconf_check(const struct config *cfg, struct buf *why)
{
    if (!CONFIG_NUM(cfg, cluster.enabled)) {
        if (*cfg->cluster.peers || *cfg->cluster.join) return refuse(why, "cluster-peers and cluster-join are for nodes of a cluster: say cluster yes");
        if (*cfg->cluster.secret || *cfg->cluster.secret_file) return refuse(why, "cluster-secret is for nodes of a cluster: say cluster yes");
        return 0;
    }
    if (*cfg->cluster.peers && *cfg->cluster.join) return refuse(why, "a node is one of a new cluster's first or joins one: not both cluster-peers and cluster-join");
    int64_t segment = CONFIG_NUM(cfg, cluster.segment_bytes);
    if (segment && segment < CLUSTERCONF_SEGMENT_MIN) return refuse(why, "cluster-segment-bytes is less than 8mb: a large entry of the Raft log would not fit");
    if (check_others(cfg, why) || check_join(cfg, why)) return -1;
    return check_peers(cfg, why);
}
