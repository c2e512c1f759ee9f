#include "server/clusterslots.h"

#include <stdbool.h>
#include <string.h>

#include "base/num.h"

/* ---- the slot of a key: CRC-16 (XMODEM: polynomial 0x1021, from 0) of the key, or of what is between its first { and the next } if that is not empty */

static uint16_t crc16(struct slice s)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < s.n; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)((uint8_t)s.p[i] << 8));
        for (int bit = 0; bit < 8; bit++) crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

static struct slice tag_of(struct slice key)
{
    const char *open = key.n ? memchr(key.p, '{', key.n) : NULL;
    if (!open) return key;
    size_t rest = (size_t)(key.p + key.n - open) - 1;
    const char *close = memchr(open + 1, '}', rest);
    return close && close > open + 1 ? slice_of(open + 1, (size_t)(close - open) - 1) : key;
}

uint16_t clusterslots_of(struct slice key) { return crc16(tag_of(key)) % CLUSTERSLOTS; }

/* ---- nodes: "name host:port@port flags ..." */

enum { NODES_MAX = 64 };

struct node_line {
    struct slice name, host;
    int64_t port;
    bool myself, fails;
};

static bool next_word(struct slice *rest, char end, struct slice *word)
{
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    if (!at) return false;
    *word = slice_of(rest->p, (size_t)(at - rest->p));
    *rest = slice_of(at + 1, rest->n - word->n - 1);
    return true;
}

static bool has(struct slice text, const char *part) { return text.n && memmem(text.p, text.n, part, strlen(part)) != NULL; }

static bool read_line(struct slice line, struct node_line *n)
{
    struct slice address, client, flags;
    if (!next_word(&line, ' ', &n->name) || !next_word(&line, ' ', &address) || !next_word(&line, ' ', &flags)) return false;
    if (!next_word(&address, '@', &client)) return false;
    const char *colon = client.n ? memrchr(client.p, ':', client.n) : NULL;
    if (!colon) return false;
    n->host = slice_of(client.p, (size_t)(colon - client.p));
    if (n->host.n > 2 && n->host.p[0] == '[') n->host = slice_of(n->host.p + 1, n->host.n - 2);
    n->myself = has(flags, "myself");
    n->fails = has(flags, "fail");
    return num_parse_i64(slice_of(colon + 1, client.n - n->host.n - 1 - (client.p[0] == '[' ? 2 : 0)), &n->port);
}

/* The node that is asked comes first. Gives how many there are. */
static size_t read_nodes(struct slice text, struct node_line out[NODES_MAX])
{
    size_t n = 0;
    struct slice line;
    while (n < NODES_MAX && next_word(&text, '\n', &line)) {
        if (!read_line(line, &out[n])) continue;
        if (out[n].myself && n) {
            struct node_line first = out[0];
            out[0] = out[n];
            out[n] = first;
        }
        n++;
    }
    return n;
}

void clusterslots_slots(struct reply *out, struct slice nodes)
{
    struct node_line of[NODES_MAX];
    size_t n = read_nodes(nodes, of);
    reply_array(out, n ? 1 : 0);
    if (!n) return;
    reply_array(out, 2 + n);
    reply_int(out, 0);
    reply_int(out, CLUSTERSLOTS - 1);
    for (size_t i = 0; i < n; i++) {
        reply_array(out, 4);
        reply_bulk(out, of[i].host);
        reply_int(out, of[i].port);
        reply_bulk(out, of[i].name);
        reply_array(out, 0);
    }
}

static void add_shard_node(struct reply *out, const struct node_line *n, bool first)
{
    reply_map(out, 7);
    reply_bulk_str(out, "id");
    reply_bulk(out, n->name);
    reply_bulk_str(out, "port");
    reply_int(out, n->port);
    reply_bulk_str(out, "ip");
    reply_bulk(out, n->host);
    reply_bulk_str(out, "endpoint");
    reply_bulk(out, n->host);
    reply_bulk_str(out, "role");
    reply_bulk_str(out, first ? "master" : "replica");
    reply_bulk_str(out, "replication-offset");
    reply_int(out, 0);
    reply_bulk_str(out, "health");
    reply_bulk_str(out, n->fails ? "fail" : "online");
}

void clusterslots_shards(struct reply *out, struct slice nodes)
{
    struct node_line of[NODES_MAX];
    size_t n = read_nodes(nodes, of);
    reply_array(out, n ? 1 : 0);
    if (!n) return;
    reply_map(out, 2);
    reply_bulk_str(out, "slots");
    reply_array(out, 2);
    reply_int(out, 0);
    reply_int(out, CLUSTERSLOTS - 1);
    reply_bulk_str(out, "nodes");
    reply_array(out, n);
    for (size_t i = 0; i < n; i++) add_shard_node(out, &of[i], i == 0);
}
