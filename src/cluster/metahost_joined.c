/* What a new node is told, in lines:
 *
 *     node 4
 *     cluster 00112233445566778899aabbccddeeff
 *     seed 123456789abcdef0 (in hex)
 *     peer 1 10.0.0.1:7001
 *     peer 2 10.0.0.2:7001
 *
 * The peers are the nodes of the cluster but the new one. Lines that begin with another word are of a newer version, and skipped. */
#include <inttypes.h>

#include "base/mem.h"
#include "base/num.h"
#include "cluster/metahost_own.h"

void metahost_joined_text(struct buf *out, const struct metanodes *nodes, const struct metagroups *groups, uint64_t node)
{
    buf_printf(out, "node %" PRIu64 "\ncluster ", node);
    for (int i = 0; i < META_CLUSTER_ID; i++) buf_printf(out, "%02x", nodes->cluster[i]);
    buf_printf(out, "\nseed %016" PRIx64 "\n", groups->map ? groups->map->route.seed : 0);
    for (uint32_t i = 0; i < nodes->n; i++) {
        const struct metanodes_node *n = &nodes->nodes[i];
        if (n->id != node && n->state != METACODE_GONE) buf_printf(out, "peer %" PRIu64 " %.*s\n", n->id, (int)n->is.peer.n, n->is.peer.p);
    }
}

/* Cuts off what comes before the first `end` byte, or everything. */
static struct slice cut(struct slice *rest, char end)
{
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    struct slice head = slice_of(rest->p, at ? (size_t)(at - rest->p) : rest->n);
    size_t used = head.n + (at != NULL);
    *rest = slice_of(rest->p + used, rest->n - used);
    return head;
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static bool parse_cluster(struct slice hex, uint8_t out[META_CLUSTER_ID])
{
    if (hex.n != 2 * META_CLUSTER_ID) return false;
    for (size_t i = 0; i < META_CLUSTER_ID; i++) {
        int high = digit(hex.p[2 * i]), low = digit(hex.p[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool parse_peer(struct slice line, struct metahost_joined *out)
{
    struct metahost_joined_peer *p = &out->peers[out->n_peers];
    struct slice number = cut(&line, ' ');
    if (out->n_peers == RAFTNODE_MEMBERS_MAX || !num_parse_u64(number, &p->node) || !p->node || !line.n || line.n > WIRE_ADDRESS_MAX) return false;
    memcpy(p->address, line.p, line.n);
    p->address[line.n] = 0;
    out->n_peers++;
    return true;
}

bool metahost_joined_parse(struct slice text, struct metahost_joined *out)
{
    bool good = true, cluster = false, seed = false;
    *out = (struct metahost_joined){0};
    while (good && text.n) {
        struct slice line = cut(&text, '\n'), word = cut(&line, ' ');
        if (slice_is(word, "node")) good = num_parse_u64(line, &out->node);
        else if (slice_is(word, "cluster")) good = cluster = parse_cluster(line, out->cluster);
        else if (slice_is(word, "seed")) good = seed = num_parse_u64(line, &out->seed);
        else if (slice_is(word, "peer")) good = parse_peer(line, out);
    }
    return good && cluster && seed && out->node && out->n_peers;
}
